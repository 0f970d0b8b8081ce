"""The examples, as a user runs them."""

import http.client
import json
import pathlib
import signal
import subprocess
import sys

from support import LIMIT, TestCase, new_name, rust_example

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "examples"


class Examples(TestCase):
    """Programs in processes of their own."""

    def serve(self, name, *arguments):
        """Starts a server, and returns it with the last word that it says."""
        command = [sys.executable, PROGRAMS / name, *arguments]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait, LIMIT)
        self.addCleanup(child.kill)
        return child, child.stdout.readline().split()[-1]

    def run_client(self, name, *arguments, code=0):
        command = [sys.executable, PROGRAMS / name, *arguments]
        ended = subprocess.run(command, timeout=LIMIT, capture_output=True, text=True)
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended.stdout + ended.stderr

    def test_thermostat(self):
        child, address = self.serve("thermostat.py", "serve", f"unix:@{new_name()}")
        printed = self.run_client("thermostat.py", "set", "21.5", address)
        self.assertEqual(printed, "the target was 18.0\n")
        printed = self.run_client("thermostat.py", "set", "99", address, code=1)
        self.assertEqual(printed, "OUT_OF_RANGE: a room has 5 to 30 degrees\n")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(LIMIT), 0)

    def test_images(self):
        _, address = self.serve("images.py", "serve", f"unix:@{new_name()}")
        printed = self.run_client("images.py", "call", address)
        text = "1024 x 768, lent: True, it begins with [255, 255, 255, 255]\n"
        self.assertEqual(printed, text)

    def test_web(self):
        with rust_example("thermostat") as address:
            _, port = self.serve("web.py", address, "0")

            def put(path):
                connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=LIMIT)
                connection.request("PUT", path)
                answer = connection.getresponse()
                found = answer.status, json.loads(answer.read())
                connection.close()
                return found

            self.assertEqual(put("/target/21.5")[0], 200)
            self.assertEqual(put("/target/20"), (200, {"celsius_before": 21.5}))
            self.assertEqual(put("/target/99"), (422, {"error": "a room has 5 to 30 degrees"}))
            self.assertEqual(put("/target/warm")[0], 400)
            self.assertEqual(put("/")[0], 404)
