"""Connections between tasks: both ends know the secret, and the end of one ends the other."""

import socket
import threading

import numpy as np
import pytest

from odmlib.spark.sockets import Channel, Door, knock


def together(*calls):
    """What calls return that wait for one another."""
    found = [None] * len(calls)

    def run(k):
        found[k] = calls[k]()

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    return found


@pytest.fixture
def door():
    door = Door("127.0.0.1")
    yield door
    door.close()


def test_tasks_meet_in_order_and_large_messages_arrive_whole(door):
    found, *others = together(
        lambda: door.channels(2),
        lambda: knock(door.address, door.secret, 2),
        lambda: knock(door.address, door.secret, 1),
    )
    try:
        large = np.arange(1 << 18, dtype=float)
        sent, received = together(lambda: found[0].send(("a", large)), others[1].receive)
        assert sent is None and received[0] == "a"
        np.testing.assert_array_equal(received[1], large)
        others[0].send("second")
        assert found[1].receive() == "second"
        others[0].close()
        with pytest.raises(ConnectionError, match="a task of the stage is lost"):
            found[1].receive()
    finally:
        for channel in (*found, *others):
            channel.close()


def test_a_stranger_is_turned_away(door):
    def stranger():
        with pytest.raises(OSError):
            knock(door.address, bytes(32), 1)
        silent = socket.create_connection(door.address)  # says nothing and leaves
        silent.close()
        return knock(door.address, door.secret, 1)

    (found,), other = together(lambda: door.channels(1), stranger)
    other.send(7)
    assert found.receive() == 7
    found.close(), other.close()


def test_a_door_without_the_secret_is_not_entered():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def wrong():
            channel = Channel(server.accept()[0])
            with pytest.raises(OSError):
                channel.prove(bytes(32), b"first", b"other")
            channel.close()

        def enter():
            with pytest.raises(OSError):
                knock(server.getsockname(), b"1" * 32, 1)

        together(wrong, enter)
