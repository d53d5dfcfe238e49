# SPDX-License-Identifier: Apache-2.0
"""Several places as one URL."""
import unittest

from dlcache.urls import join_urls


class JoinUrls(unittest.TestCase):
    def test_joined(self):
        for urls, joined in (
                (["s3://b/cats/", "s3://b/more/cats"], "s3://b/?samples=cats/&samples=more/cats/"),
                (["gs://b/x/b/", "gs://b/x/a/"], "gs://b/x/?samples=b/&samples=a/"),
                (["s3://b/ab/", "s3://b/ac/"], "s3://b/?samples=ab/&samples=ac/"),
                (["file:///d/one/", "file:///d/two"], "file:///d/?samples=one/&samples=two/"),
                (["s3://b/x/p-*", "s3://b/x/q/"], "s3://b/x/?samples=p-*&samples=q/"),
                (["s3://b/x?latency=5ms", "s3://b/y?latency=5ms"], "s3://b/?latency=5ms&samples=x/&samples=y/"),
                (["s3://b/x/"], "s3://b/x/")):
            with self.subTest(urls):
                self.assertEqual(join_urls(urls), joined)

    def test_refused(self):
        for urls, says in ((["s3://a/x", "s3://b/x"], "different buckets"), (["s3://b/", "s3://b/x/"], "contains the other"),
                           (["s3://b/x?split=a", "s3://b/y"], "differ"), ([], "one URL at least"),
                           (["dlcache://a", "dlcache://b"], "s3://, gs:// or file://"),
                           (["s3://b/x&y/", "s3://b/z"], "'&' or '?'")):
            with self.subTest(urls), self.assertRaisesRegex(ValueError, says.replace("?", r"\?")):
                join_urls(urls)


if __name__ == "__main__":
    unittest.main()
