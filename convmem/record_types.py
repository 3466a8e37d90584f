"""The numbers that tell records apart in the log. None is ever used for something else."""

from enum import IntEnum


class RecordType(IntEnum):
    """The type byte of a frame or batch item. 4 to 6 are the log's own."""

    PUT_MESSAGE = 1
    UPDATE_MESSAGE = 2
    DELETE_MESSAGE = 3
    SET_FACT = 7
    DELETE_FACT = 8
    GREATEST_ID = 9
    REFUSE_FACT = 10
    CHANGE_EFFECT = 11
    GREATEST_FACT_REVISION = 12
