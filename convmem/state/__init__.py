"""All that is known about a memory, and the one function that changes it.

``State.apply`` is the only way in, for a live write (after its bytes are durable) and for
replay alike: folding it over the records of a log gives the state, whoever wrote them.
The state holds no text but session names; bodies are read back from the log.
"""

from collections.abc import Callable

from convmem.errors import InvalidRecord
from convmem.ids import NO_ID
from convmem.message import Message
from convmem.records import Place, PutMessage, Record
from convmem.state.messages import MessageTable
from convmem.state.sessions import SessionTable


class State:
    """Messages and sessions as the log tells them.

    ``read_record`` gives back the record at a place in the log; the state calls it for bodies.
    """

    def __init__(self, read_record: Callable[[Place], Record]) -> None:
        self._read_record = read_record
        self.messages = MessageTable()
        self.sessions = SessionTable()
        self.last_id = NO_ID

    def apply(self, record: Record, place: Place) -> None:
        """Take in one durable record. Raises InvalidRecord where it cannot follow the past."""
        match record:
            case PutMessage(message):
                self._put(message, place)

    def message(self, row: int) -> Message:
        """The message of a row as it stands, its body read from the log and verified."""
        return self._read_record(self.messages.place(row)).message

    def memory_bytes(self) -> int:
        """What the state occupies, as allocated."""
        return self.messages.memory_bytes() + self.sessions.memory_bytes()

    def _put(self, message: Message, place: Place) -> None:
        if self.messages.row(message.message_id) is not None:
            raise InvalidRecord("a message id is written twice")
        session = self.sessions.intern(message.session_id)
        self.sessions.append(session, self.messages.append(message, session, place))
        self.last_id = max(self.last_id, message.message_id)
