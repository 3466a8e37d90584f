"""Many processes, one memory: the owner of a store answers for its guests.

    shared        a memory that is the owner, or a guest of it, and becomes the other as it must
    owner guest   the two ends of a connection between them, over ``wire``
    surroundings  what a process sees of the others: the lock, endpoints, the store itself
    endpoint      sockets and who may connect to them
    repeats       what lets a command be asked twice and done once
    wire          commands and queries as JSON

Whoever holds the lock of the store is its owner. Imported before the host is greeted: light.
"""
