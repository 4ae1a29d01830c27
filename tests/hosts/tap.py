"""A tap on a connection: passes bytes between a host and our server, and keeps all of them."""

import socket
import threading


class Tap:
    """Listens on a port of its own and passes everything on to `address`."""

    def __init__(self, address):
        host, port = address.removeprefix("http://").split(":")
        self.server = (host, int(port))
        self.kept = bytearray()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.server)
            except OSError:
                return
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        try:
            while piece := source.recv(65536):
                with self.lock:
                    self.kept += piece
                sink.sendall(piece)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def bytes(self):
        with self.lock:
            return bytes(self.kept)

    def close(self):
        self.listener.close()
