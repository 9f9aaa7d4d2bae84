"""Self-test of what makes a comparison fair, without any server."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import applications
import bodies
import bridges
import peers
import sites
import phpini
import processes
from failure import Failure, pick, tool
from peers import reprise
from processes import CpuReading
from scenarios import NORMALISATIONS, SCENARIOS, Boot


class Messages(unittest.TestCase):
    def test_nearest_name(self) -> None:
        with self.assertRaises(Failure) as caught:
            pick("scenario", "wordpres", SCENARIOS)
        self.assertIn("did you mean 'wordpress'?", str(caught.exception))

    def test_missing_tool_names_the_package(self) -> None:
        with self.assertRaises(Failure) as caught:
            tool("no-such-program", "some-package")
        self.assertIn("apt-get install some-package", str(caught.exception))

    def test_port_in_use(self) -> None:
        import socket
        with socket.create_server(("127.0.0.1", 0)) as taken:
            with self.assertRaises(Failure) as caught:
                processes.free_port(taken.getsockname()[1])
        self.assertIn("is in use", str(caught.exception))


class Bodies(unittest.TestCase):
    def test_normalisations_touch_only_the_value(self) -> None:
        page = b'<meta name="csrf-token" content="' + b"a" * 40 + b'"><p>' + b"a" * 40
        self.assertEqual(SCENARIOS["laravel"].normalised(page),
                         b'<meta name="csrf-token" content="TOKEN"><p>' + b"a" * 40)
        self.assertEqual(SCENARIOS["hello"].normalised(page), page)

    def test_scenarios_name_known_normalisations(self) -> None:
        for scenario in SCENARIOS.values():
            self.assertLessEqual(set(scenario.normalise), NORMALISATIONS.keys())

    def test_difference_shows_the_place(self) -> None:
        text = bodies.difference(b"x" * 500 + b"one", b"x" * 500 + b"two", ("a", "b"))
        self.assertIn("different from byte 500 on", text)
        self.assertIn("one", text)


class Settings(unittest.TestCase):
    RAW = {"version": "8.2", "zts": 0, "debug": 0, "jit": False, "opcache": True, "user": 33, "umask": 18,
           "extensions": ["Core"], "ini": {"memory_limit": "128M"}}

    def test_only_listed_differences_pass(self) -> None:
        same = phpini.Settings(self.RAW)
        own = phpini.Settings({**self.RAW, "ini": {"memory_limit": "128M", "cgi.nph": "0"}, "extensions": ["Core", "cgi-fcgi"]})
        unlike = phpini.Settings({**self.RAW, "ini": {"memory_limit": "64M"}})
        self.assertEqual(len(phpini.require_same(("a", "b"), same, own)), 2)
        with self.assertRaises(Failure) as caught:
            phpini.require_same(("a", "b"), same, unlike)
        self.assertIn("memory_limit: '128M' and '64M'", str(caught.exception))


class Peers(unittest.TestCase):
    def test_settings_of_one_side(self) -> None:
        sides = {"nginx_fpm": "nginx_fpm", "nginx_fpm#2": "nginx_fpm"}
        chosen = peers.options(sides, ["nginx_fpm.processes=auto", "nginx_fpm#2.processes=3"])
        self.assertEqual([chosen[side]["processes"] for side in sides], ["auto", "3"])

    def test_configuration_survives_quoting(self) -> None:
        site = sites.Site("app", Path("/srv/a \"b\""), {"KEY": "a\\b\n\"c\""}, Path("/tmp/w"), 8080, 2,
                          {"opcache.enable": "1"}, "")
        read = tomllib.loads(reprise.configuration(site))
        application = read["application"][0]
        self.assertEqual(read["listen"], ["127.0.0.1:8080"])
        self.assertEqual(application["root"], "/srv/a \"b\"")
        self.assertEqual(application["ini"], {"opcache.enable": "1"})
        self.assertEqual(application["env"], {"KEY": "a\\b\n\"c\""})


    def test_snapshot_is_configured_and_required(self) -> None:
        site = sites.Site("app", Path("/srv/a"), {}, Path("/tmp/w"), 8080, 2, {"opcache.enable": "1"}, "", Boot("boot.php"))
        application = tomllib.loads(reprise.configuration(site))["application"][0]
        self.assertEqual((application["front_controller"], application["mode"]), ("boot.php", {"boot.php": "snapshot"}))
        plain = tomllib.loads(reprise.configuration(dataclasses.replace(site, boot=None)))["application"][0]
        self.assertFalse({"front_controller", "mode"} & plain.keys())

    def test_clones_are_told_from_classic_workers(self) -> None:
        """Supervisor 1, prototype 2, classic workers 3 and 4, template 5 with clones 6 and 7."""
        parents = {2: 1, 3: 2, 4: 2, 5: 2, 6: 5, 7: 5}
        self.assertEqual(reprise.split(parents, 1, sorted(parents)), ([6, 7], [3, 4]))
        self.assertEqual(reprise.split({2: 1, 3: 2}, 1, [2, 3]), ([], [3]))


class Snapshots(unittest.TestCase):
    """Requests that are not answered by clones end the run."""

    def setUp(self) -> None:
        self.used = {"clones": 0, "classic": 0}
        self.kept = reprise.clones, processes.cpu_ns
        reprise.clones = lambda _: (["clones"], ["classic"])  # type: ignore[assignment,return-value]
        processes.cpu_ns = lambda pid: self.used[pid]  # type: ignore[assignment,index]
        self.place = tempfile.TemporaryDirectory()
        self.server = processes.start("server", ["true"], Path(self.place.name, "log"))
        self.server.popen.wait()
        self.check = reprise.SnapshotCheck(self.server, "boot.php")

    def tearDown(self) -> None:
        reprise.clones, processes.cpu_ns = self.kept
        self.server.stop()
        self.place.cleanup()

    def test_not_booted(self) -> None:
        with self.assertRaises(Failure) as caught:
            self.check()
        self.assertIn("boot.php is not booted", str(caught.exception))

    def test_who_has_worked(self) -> None:
        self.server.log.write_text("notice supervisor: application 'a': /boot.php is booted, isolation rewind\n")
        self.used["classic"] = 5000  # before the first check: not counted
        self.check()
        self.used["clones"] += 1000
        self.check()
        self.used["classic"] += 1000
        with self.assertRaises(Failure) as caught:
            self.check()
        self.assertIn("not every request is answered from the lane", str(caught.exception))


class Applications(unittest.TestCase):
    def test_another_front_controller_has_a_root_without_index(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            source, dest = Path(place, "source"), Path(place, "dest")
            public = source / "snapshot" / "public"
            public.mkdir(parents=True)
            for name in ("index.php", "boot.php"):
                (public / name).write_text(name)
            dest.mkdir()
            builder = applications.Builder(source, dest, "nobody", False, lambda _: None)
            builder.prepare("snapshot", None)
            self.assertEqual(builder.root("snapshot"), dest / "snapshot" / "public")
            other = builder.root("snapshot", "boot.php")
            self.assertEqual([path.name for path in other.iterdir()], ["boot.php"])
            self.assertEqual(other.parent, dest / "snapshot")

    def test_scenarios_name_what_is_there(self) -> None:
        for scenario in SCENARIOS.values():
            self.assertIn(scenario.application, applications.APPLICATIONS)
            boot = scenario.boot
            if boot and boot.bridge:
                self.assertIn(applications.APPLICATIONS[scenario.application].of or scenario.application, bridges.INSTALL)
            elif boot:
                public = applications.APPLICATIONS[scenario.application].public
                self.assertTrue((applications.SOURCE / scenario.application / public / boot.script).is_file())


class Processes(unittest.TestCase):
    def test_cpu_since(self) -> None:
        before = CpuReading({"php": {10: 100, 11: 50}})
        after = CpuReading({"php": {10: 180, 12: 7}, "new": {20: 5}})
        self.assertEqual(after.since(before), ({"php": 87, "new": 5}, 1))

    def test_stop_ends_the_children_of_a_stubborn_process(self) -> None:
        """Neither the shell nor its child heeds the request to end; both are gone afterwards."""
        with tempfile.TemporaryDirectory() as place:
            made = processes.start("stubborn", ["sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60"], Path(place, "log"))
            processes.wait_until(lambda: len(processes.tree(made.pid)) > 1, 5, made, "its child")
            family = {pid: processes.start_time(pid) for pid in processes.tree(made.pid)}
            deadline, processes.STOP_DEADLINE_S = processes.STOP_DEADLINE_S, 0.2
            try:
                made.stop()
            finally:
                processes.STOP_DEADLINE_S = deadline
            self.assertFalse(any(processes.alive(pid, since) for pid, since in family.items()))
            self.assertEqual(made.popen.returncode, -signal.SIGKILL)

    def test_death_before_ready_shows_the_log(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            made = processes.start("failing", ["sh", "-c", "echo no such thing; exit 3"], Path(place, "log"))
            with self.assertRaises(Failure) as caught:
                processes.wait_until(lambda: False, 5, made, "answering")
            made.stop()
        self.assertIn("ended with status 3", str(caught.exception))
        self.assertIn("no such thing", str(caught.exception))

    def test_own_cpu_time_is_seen(self) -> None:
        before = processes.cpu_ns(os.getpid())
        sum(range(2_000_000))
        self.assertGreater(processes.cpu_ns(os.getpid()), before)


if __name__ == "__main__":
    unittest.main()
