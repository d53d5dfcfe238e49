# SPDX-License-Identifier: Apache-2.0
"""Figures, words, plot and progress line, from batches told by hand."""
import io
import json
import os
import random
import tempfile
import unittest
import xml.dom.minidom
from unittest import mock

from dlcache.torch import format as fmt, plot, report, sim_plot
from dlcache.torch.epoch_rows import ROWS, EpochRow
from dlcache.torch.report import POINTS, Progress, ReportBuilder


def daemon(pid=1, **counters):
    return {"daemon": {"pid": pid}, "counters": {"bucket_requests": 10 ** 6},
            "dataset": {"counters": counters}}


def builder(batches=20, waited=0.0, step=0.1, **more):
    t = ReportBuilder()
    for _ in range(batches):
        t.batch(32, waited, step, 3, **more)
    return t


class Counting(unittest.TestCase):
    def test_sums(self):
        t = builder(10, 0.1, 0.3, stats={"hits": 30, "misses": 1, "bypasses": 1, "bytes": 1000})
        t.epoch_end()
        r = t.report()
        self.assertEqual((r.samples, r.batches, r.epochs), (320, 10, 1))
        self.assertEqual((r.hits, r.read_bytes), (300, 10000))
        self.assertAlmostEqual(r.wall_s, 4.0)
        self.assertAlmostEqual(r.samples_per_s, 80.0)
        self.assertAlmostEqual(r.stalled_share, 0.25)
        self.assertAlmostEqual(r.hit_share, 300 / 320)
        self.assertEqual((r.workers, r.workers_most), (3, 3))

    def test_no_daemon(self):
        r = builder(10, stats={"hits": 30, "bypasses": 2, "without_daemon": 2}).report()
        self.assertEqual((r.bypasses, r.without_daemon, r.as_dict()["without_daemon"]), (20, 20, 20))
        self.assertIn("none answered for 20 reads", str(r))
        self.assertNotIn("none answered", str(builder(10, stats={"hits": 30, "bypasses": 2}).report()))

    def test_nothing_yet(self):
        r = ReportBuilder().report()
        self.assertEqual((r.samples_per_s, r.stalled_share, r.hit_share, r.cause), (0, 0, 0, {}))
        self.assertIn("0 samples", str(r))

    def test_memory_is_bounded_and_nothing_lost(self):
        t, rng = ReportBuilder(), random.Random(1)
        for i in range(50000):
            t.batch(rng.randrange(1, 64), rng.random() / 10, 0.01, 1 + i % 5,
                    stats={"stall_s": rng.random()}, busy_s=1.0)
            if i % 20 == 19:
                t.epoch_end()
        r = t.report()
        self.assertLessEqual(len(r.series), 2 * POINTS)
        self.assertGreaterEqual(len(r.series), POINTS)
        self.assertLessEqual(len(r.marks), report.MARKS)
        self.assertEqual(sum(p.samples for p in r.series), r.samples)
        self.assertEqual(sum(p.batches for p in r.series), 50000)
        self.assertAlmostEqual(sum(p.wall_s for p in r.series), r.wall_s)
        self.assertAlmostEqual(sum(sum(p.waited.values()) for p in r.series), r.waited_s)
        for a, b in zip(r.series, r.series[1:]):
            self.assertAlmostEqual(a.begin_s + a.wall_s, b.begin_s)

    def test_a_report_does_not_change(self):
        t = builder(3)
        r = t.report()
        before = r.as_dict(), [p.samples for p in r.series]
        for _ in range(5000):
            t.batch(32, 0.1, 0.1, 9)
        self.assertEqual((r.as_dict(), [p.samples for p in r.series]), before)

    def test_errors(self):
        t = ReportBuilder()
        told = {"skipped": 1, "replaced": 2, "bad": [(7, "a/7.jpg", "not an image")] * 3}
        t.batch(32, 0.0, 0.1, 2, errors=told)
        t.batch(32, 0.0, 0.1, 2, stats={"errors": told})
        for _ in range(400):
            t.batch(32, 0.0, 0.1, 2, stats={"errors": told})
        r = t.report()
        self.assertEqual((r.errors["skipped"], r.errors["replaced"]), (402, 804))
        self.assertEqual(len(r.errors["bad"]), report.BAD_KEPT)
        self.assertIn("a/7.jpg", str(r))


class Cause(unittest.TestCase):
    def cause(self, **batch):
        t = ReportBuilder()
        t.batch(32, 0.0, 0.1, 2)
        t.batch(32, 0.4, 0.1, 2, **batch)
        return t.report().cause

    def test_rule(self):
        self.assertEqual(self.cause(busy_s=1.0, stats={"stall_s": 1.0})["bucket"], 1.0)
        self.assertEqual(self.cause(busy_s=1.0, stats={"stall_s": 0.0})["workers"], 1.0)
        self.assertEqual(self.cause(transport_s=9.0)["transport"], 1.0)
        parts = self.cause(busy_s=1.0, stats={"stall_s": 0.75}, transport_s=0.2)
        for name, share in {"transport": 0.5, "bucket": 0.375, "workers": 0.125}.items():
            self.assertAlmostEqual(parts[name], share)

    def test_more_stall_than_time(self):
        """Readers of several threads may count more than the time that passed."""
        self.assertEqual(self.cause(busy_s=1.0, stats={"stall_s": 7.0})["bucket"], 1.0)

    def test_the_loader_knows_better(self):
        self.assertEqual(self.cause(cause="start", busy_s=1.0)["start"], 1.0)

    def test_first_batch(self):
        t = ReportBuilder()
        t.batch(32, 2.0, 0.0, 2, busy_s=1.0, stats={"stall_s": 1.0})
        self.assertEqual(t.report().cause["start"], 1.0)

    def test_shares_add_up(self):
        self.assertAlmostEqual(sum(self.cause(busy_s=3.0, stats={"stall_s": 1.0}).values()), 1.0)


def epochs(fetched, *rows, pid=1):
    """What the daemon says: samples fetched so far, and its latest epochs."""
    return {"daemon": {"pid": pid}, "dataset": {"fetched": fetched, "epochs": [
        dict(zip(("epoch", "reuse", "prefetch", "waited"), row)) for row in rows]}}


class EpochState(unittest.TestCase):
    def test_whence(self):
        t = ReportBuilder()
        t.rows.begin(epochs(1000))
        t.batch(30, 0.1, 0.9, 2)
        t.epoch_end(EpochRow(0, 0, 0, 30, 30, 0.5, 25.0), epochs(1040, (8, 2, 0, 0), (7, 0, 20, 10)), 7)
        t.batch(30, 0.1, 1.9, 2)
        t.epoch_end(EpochRow(1, 0, 0, 30, 20, 0.4, 12.3, 1), epochs(1055, (8, 20, 6, 4)), 8)
        r = t.report()
        self.assertEqual(r.reads, {"reuse": 20, "prefetch": 26, "waited": 14})
        first, second = r.by_epoch
        self.assertEqual((first.begin_s, first.end_s, second.begin_s, second.end_s), (0, 1, 1, 3))
        self.assertEqual((first.hit_share, first.reuse_share, first.reads_per_distinct), (20 / 30, 0, 1.0))
        self.assertEqual((second.fetched, second.reads_per_distinct), (10, 0.5))  # no more than were not there
        self.assertIn("33.3 % of the samples were in memory", str(r))
        self.assertIn("epoch 1: 40.0 % of the samples, 20 in 30 positions, drawn as from 12 of equal weight; 1 losses",
                      str(r))
        told = json.loads(r.json())["by_epoch"][1]
        self.assertEqual((told["coverage"], told["reads_per_distinct"], told["effective"]), (0.4, 0.5, 12.3))

    def test_the_daemon_says_nothing_or_was_started_again(self):
        t = ReportBuilder()
        t.rows.begin(None)
        for stats in (None, {}, {"dataset": None}, epochs(50, (0, 5, 5, 0)), epochs(10, (1, 0, 20, 0), pid=2)):
            t.epoch_end(EpochRow(0, 0, 0, 10, 10, 1.0), stats, 0 if stats else None)
        r = t.report()
        self.assertEqual([row.fetched for row in r.by_epoch], [0, 0, 0, 5, 0])
        self.assertNotIn("seen", str(r))

    def test_bounded(self):
        t = ReportBuilder()
        for i in range(20 * ROWS):
            t.epoch_end(EpochRow(i, 0, 0, 1, 1, 1.0, 1.0), epochs(i, (i, 1, 0, 0)), i)
        r = t.report()
        self.assertLessEqual(len(r.by_epoch), ROWS)
        self.assertGreater(len(r.by_epoch), ROWS // 4)
        self.assertEqual(r.reads["reuse"], 20 * ROWS)

    def test_drawn(self):
        t = builder(40, 0.01)
        without = plot.svg(t.report())
        t.epoch_end(EpochRow(0, 0, 0, 30, 30, 0.5, 25.0), epochs(40, (0, 10, 20, 0)), 0)
        text = plot.svg(t.report())
        for name in ("seen", "reused", "hits"):
            self.assertIn(">%s<" % name, text)
            self.assertNotIn(">%s<" % name, without)
        xml.dom.minidom.parseString(text)

    def test_lines(self):
        for shares in ({}, {"a": []}, {"a": [0.5]}, {"a": [0, 1, 0.3], "b & c": [0.25] * 200}):
            text = plot.lines("title <1>", "more", shares)
            xml.dom.minidom.parseString(text)
        self.assertIn("b &amp; c", text)


    def test_simulation(self):
        """What `dlcache sim --json` prints, as a program draws it."""
        found = {"title": "a & b", "subtitle": "", "measure": "seconds", "capacities": [10 ** 9, 4 * 10 ** 9],
                 "policies": {"p%d" % i: {"measure_by_capacity": [900, 5 * i]} for i in range(12)}}
        root = xml.dom.minidom.parseString(sim_plot.svg(found)).documentElement
        self.assertEqual(len(root.getElementsByTagName("polyline")), 12)
        texts = root.getElementsByTagName("text")
        self.assertLessEqual({"p11", "1.0 GB", "4.0 GB", "1,000"}, {t.firstChild.data for t in texts if t.firstChild})
        for t in texts:
            self.assertLess(float(t.getAttribute("y")), float(root.getAttribute("height")))
        found.update(measure="share of reads that hit", capacities=[1])
        self.assertIn(">100 %<", sim_plot.svg(found).replace("900", "0.9"))

    def test_simulation_program(self):
        said = {"title": "t", "subtitle": "", "measure": "seconds", "capacities": [1],
                "policies": {"lru": {"measure_by_capacity": [2.5]}}}
        with tempfile.TemporaryDirectory() as d:
            for text, status in ((json.dumps(said), 0), ("{}", 1), ("no", 1)):
                with mock.patch("sys.stdin", io.StringIO(text)), mock.patch("sys.stderr", io.StringIO()):
                    self.assertEqual(sim_plot.main([d + "/a.svg"]), status)
            xml.dom.minidom.parse(d + "/a.svg")
            with mock.patch("sys.stderr", io.StringIO()):
                self.assertEqual(sim_plot.main([]), 2)


class Bucket(unittest.TestCase):
    def test_difference(self):
        before = daemon(bucket_requests=100, bucket_bytes=5, money_nano=10 ** 9)
        now = daemon(bucket_requests=150, bucket_bytes=1005, money_nano=3 * 10 ** 9)
        r = builder().report([(before, now)])
        self.assertEqual((r.requests, r.bytes, r.money_usd), (50, 1000, 2.0))
        twice = builder().report([(before, now), (before, now)])
        self.assertEqual((twice.requests, twice.money_usd), (100, 4.0))

    def test_daemon_started_again(self):
        r = builder().report([(daemon(1, bucket_requests=100), daemon(2, bucket_requests=30))])
        self.assertEqual(r.requests, 30)

    def test_daemon_gone_or_older(self):
        for silent in (({}, {}), ({}, daemon(bucket_requests=9)), (daemon(bucket_requests=9), {})):
            self.assertEqual(builder().report([silent]).requests, 0)
        old = {"daemon": {"pid": 1}, "counters": {"bucket_requests": 4}}
        new = {"daemon": {"pid": 1}, "counters": {"bucket_requests": 9}}
        self.assertEqual(builder().report([(old, new)]).requests, 5)


class Words(unittest.TestCase):
    def test_text(self):
        t = builder(100, 0.1, 0.3, busy_s=0.5, cpu_s=0.4, stats={
            "hits": 30, "misses": 2, "bytes": 10 ** 7, "stall_s": 0.5})
        now = daemon(bucket_requests=1234, bucket_bytes=2 * 10 ** 9, money_nano=1200000,
                     stall_memory_ns=5)
        text = str(t.report([(daemon(bucket_requests=0), now)]))
        for word in ("3,200 samples in 0:40, 80 samples/s", "stalled   25.0 %, 0:10: bucket 99.0 %",
                     "93.8 % hits of 3,200 reads, 1.0 GB", "1,234 requests, 2.0 GB, 0.0012 USD",
                     "3 now, 3 at most; 15.6 ms for a sample, 80.0 % of it CPU", "larger --memory"):
            self.assertIn(word, text)

    def test_advice_follows_the_cause(self):
        slow = builder(9, 0.1, 0.1, busy_s=0.32, cpu_s=0.3).report()
        self.assertIn("10 ms of a worker", slow.advice())
        alone = ReportBuilder()
        for _ in range(9):
            alone.batch(32, 0.1, 0.1, 0, busy_s=0.1)
        self.assertIn('num_workers="auto"', alone.report().advice())
        self.assertIn("uint8", builder(9, 0.1, 0.1, transport_s=0.1).report().advice())
        bytes_ = builder(9, 0.1, 0.1, busy_s=0.1, stats={"stall_s": 0.1})
        self.assertIn("dlcache stat", bytes_.report().advice())
        for name, (_, advice) in report._WHY_BYTES.items():
            self.assertEqual(bytes_.report([(daemon(), daemon(**{name: 5}))]).advice(), advice)

    def test_advice_names_the_start_where_that_is_largest(self):
        t = builder(1, 1.0, 0.0)
        for _ in range(9):
            t.batch(32, 0.05, 0.1, 3, busy_s=0.32, cpu_s=0.3)
        text = t.report().advice()
        self.assertRegex(text, "^The start of the run took 69.0 % of the wait")
        self.assertIn("dlcache warm", text)
        self.assertIn("10 ms of a worker", text)
        for _ in range(90):
            t.batch(32, 0.05, 0.1, 3, busy_s=0.32, cpu_s=0.3)
        self.assertRegex(t.report().advice(), "^Making a sample takes 10 ms")

    def test_no_advice_for_the_start(self):
        r = builder(1, 1.0, 0.0).report()
        self.assertEqual((r.stalled_share, r.advice()), (1.0, ""))

    def test_no_advice_when_nothing_stalls(self):
        r = builder(1000, 0.0001, 0.1).report()
        self.assertEqual(r.advice(), "")
        self.assertIn("the training step is the limit", str(r))

    def test_dict_and_json(self):
        r = builder(9, 0.1, 0.1).report()
        d = r.as_dict()
        self.assertEqual(json.loads(r.json()), json.loads(json.dumps(d, default=str)))
        for name in ("samples_per_s", "stalled_share", "cause", "hit_share", "money_usd"):
            self.assertIn(name, d)

    def test_figures(self):
        for x, text in ((0, "0"), (0.123456, "0.123"), (99.94, "99.9"), (1234.5, "1,234")):
            self.assertEqual(fmt.count(x), text)
        for x, text in ((0, "0 B"), (999, "999 B"), (1200, "1.2 kB"), (3e15, "3.0 PB")):
            self.assertEqual(fmt.size(x), text)
        for x, text in ((0.0123, "12.3 ms"), (4.12, "4.1 s"), (41, "0:41"), (59.7, "1:00"),
                        (11220, "3:07:00"), (float("inf"), "-")):
            self.assertEqual(fmt.duration(x), text)
        for x, text in ((0, "0 %"), (1, "100 %"), (0.9999, "99.9 %"), (0.003, "0.3 %")):
            self.assertEqual(fmt.share(x), text)


class Plot(unittest.TestCase):
    def test_well_formed_with_everything_in_it(self):
        t = ReportBuilder()
        for i in range(400):
            t.batch(32, 0.05 * (i % 3), 0.1, 1 + i // 100, busy_s=1.0, stats={"stall_s": 0.5},
                    transport_s=0.01)
            if i % 100 == 99:
                t.epoch_end()
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "out.svg")
            t.report().plot(path)
            document = xml.dom.minidom.parse(path)
        words_ = [n.firstChild.data for n in document.getElementsByTagName("text")]
        for word in ("samples/s", "stalled", "workers", "bucket", "transport", "epoch 1", "4"):
            self.assertIn(word, words_)
        self.assertEqual(len([n for n in document.getElementsByTagName("line")
                              if n.getAttribute("class") == "mark"]), 4)

    def test_any_run(self):
        """No batch, one batch, a zero, a day, a thousand epochs: always a picture."""
        runs = ((0, 0, 0), (1, 0, 0), (1, 0.1, 0), (3, 1e-9, 1e-9), (5, 9e4, 9e5), (3000, 0.1, 0.1))
        for batches, waited, step in runs:
            t = ReportBuilder()
            for _ in range(batches):
                t.batch(1, waited, step, 0)
                t.epoch_end()
            with self.subTest(batches=batches, step=step), tempfile.TemporaryDirectory() as d:
                t.report().plot(d + "/x.svg")
                xml.dom.minidom.parse(d + "/x.svg")
                self.assertLess(os.path.getsize(d + "/x.svg"), 200_000)

    def test_only_svg(self):
        with self.assertRaisesRegex(ValueError, r"only SVG is written; name the file \*.svg"):
            builder().report().plot("out.png")

    def test_notebook(self):
        t = builder(9, 0.1, 0.1, errors={"skipped": 1, "bad": ["<b>&"]})
        text = t.report()._repr_html_()
        self.assertIn("&lt;b&gt;&amp;", text)
        self.assertIn("<svg", text)


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def screen(self):
        """What the last line looks like."""
        line = ""
        for part in self.getvalue().split("\r"):
            line = part + line[len(part):]
        return line


class ProgressLine(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.builder = ReportBuilder()

    def run_for(self, p, seconds, batch=32, waited=0.01, epoch=2, money=0.0012):
        for _ in range(round(seconds / 0.1)):
            self.now += 0.1
            self.builder.batch(batch, waited, 0.1 - waited, 3, stats={"hits": 31, "misses": 1},
                               busy_s=1.0)
            p.show(self.builder, epoch, self.builder.samples, 32000, money)

    def test_terminal(self):
        out = Terminal()
        p = Progress(out, clock=lambda: self.now, columns=200)
        self.run_for(p, 30)
        self.assertEqual(out.screen().rstrip(),
                         "epoch 2  30 %  320 samples/s  stalled 10.0 % (workers)  "
                         "hits 96.9 %  workers 3  0.0012 USD  eta 1:10")
        self.assertLessEqual(out.getvalue().count("\r"), 30 * 5 + 1)
        self.assertNotIn("\n", out.getvalue())
        p.close()
        self.assertTrue(out.getvalue().endswith("\n"))
        size = len(out.getvalue())
        p.close()
        self.run_for(p, 5)
        self.assertEqual(len(out.getvalue()), size)

    def test_an_epoch_ends_its_line(self):
        out = Terminal()
        p = Progress(out, clock=lambda: self.now, columns=200)
        p.end_line()
        self.assertEqual(out.getvalue(), "")  # none was begun
        self.run_for(p, 1)
        p.end_line()
        p.end_line()
        p.close()
        self.assertEqual(out.getvalue().count("\n"), 1)
        self.assertTrue(out.getvalue().endswith("\n"))

    def test_figures_are_recent(self):
        out = Terminal()
        p = Progress(out, clock=lambda: self.now, columns=200)
        self.run_for(p, 60, batch=32, waited=0.09)
        self.run_for(p, 15, batch=320, waited=0.0)
        self.assertIn("  3,200 samples/s  stalled 0 %  ", out.screen())

    def test_shorter_line_leaves_no_rest(self):
        out = Terminal()
        p = Progress(out, clock=lambda: self.now, columns=200)
        self.run_for(p, 1, epoch=10 ** 9)
        self.run_for(p, 1, epoch=1, money=0)
        self.assertEqual(out.screen().count("eta"), 1)

    def test_narrow(self):
        for columns in range(1, 100):
            out = Terminal()
            p = Progress(out, clock=lambda: self.now, columns=columns)
            self.run_for(p, 1)
            p.close()
            longest = max(len(part) for part in out.getvalue().strip("\n").split("\r"))
            self.assertLess(longest, columns)
        self.assertIn("samples/s", out.getvalue())

    def test_not_a_terminal(self):
        out = io.StringIO()
        p = Progress(out, clock=lambda: self.now)
        self.run_for(p, 65)
        self.assertEqual(out.getvalue().count("\n"), 2)
        self.assertNotIn("\r", out.getvalue())
        p.close()
        self.assertEqual(out.getvalue().count("\n"), 3)

    def test_short_run_that_was_never_shown(self):
        p = Progress(Terminal(), clock=lambda: self.now)
        p.close()
        self.assertEqual(p._stream.getvalue(), "")

    def test_broken_stream(self):
        class Broken(Terminal):
            def write(self, text):
                raise BrokenPipeError

        p = Progress(Broken(), clock=lambda: self.now)
        self.run_for(p, 2)
        self.assertFalse(p.due())
        p.close()
        closed = Terminal()
        p = Progress(closed, clock=lambda: self.now)
        closed.close()
        self.run_for(p, 2)
        p.close()


if __name__ == "__main__":
    unittest.main()
