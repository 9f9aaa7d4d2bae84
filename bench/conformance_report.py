"""What bench/cache-conformance makes of verdicts: what Reprise has missed, and a page of tables."""

from __future__ import annotations

from conformance_suite import FAILED, PASSED, UNTESTED, Suite, Test, Verdict
from document import Page, section

Found = dict[str, Verdict]

# Tests whose preparation asks for what Reprise does not do; so they say nothing.
UNPREPARED = {
    "headers-store-Set-Cookie": "a response with Set-Cookie is never stored",
    "304-etag-update-response-Set-Cookie": "a response with Set-Cookie is never stored",
    "headers-store-Transfer-Encoding": "a response with a transfer coding that does not exist is refused",
    "304-etag-update-response-ETag": "a 304 with another ETag changes nothing that is stored (RFC 9111 §4.3.4): the response is asked for anew",
}
# Required tests that say something only of a cache that passes such a `check`, where Reprise decides otherwise.
DECIDED = {
    "stale-close": "a stale response stands in for an error if it says so (`stale-if-error`)",
}
# Optimal tests that Reprise does not pass. The list may only become shorter.
_PART = "a response that is a part is not stored"
_LANGUAGE = "which language a client gets is for the application to say: another order of Accept-Language may get another response"
NOT_OPTIMAL: dict[str, str] = {
    "other-set-cookie": "a response with Set-Cookie is never stored",
    "method-POST": "a response to POST is not stored",
    "vary-normalise-lang-order": _LANGUAGE,
    "vary-normalise-lang-select": _LANGUAGE,
    "conditional-lm-fresh-no-lm": "a response without Last-Modified is not known by a date",
    "partial-store-partial-reuse-partial": _PART,
    "partial-store-partial-reuse-partial-byterange": _PART,
    "partial-store-partial-reuse-partial-absent": _PART,
    "partial-store-partial-reuse-partial-suffix": _PART,
    "partial-store-partial-complete": _PART,
}
# Required tests that no application in PHP can pass here.
OF_PHP = {
    "304-etag-update-response-Content-Type": "PHP adds a Content-Type to each response, so Reprise takes it from a 304 of PHP",
}


def is_due(test: Test) -> bool:
    """Whether Reprise has to pass it."""
    return test.kind == "required" and test.name not in UNPREPARED and not DECIDED.keys() & set(test.depends_on)


def missed(suite: Suite, server: str, found: Found) -> dict[str, str]:
    """What Reprise should pass and does not, with the reason."""
    rows = {}
    for name, verdict in found.items():
        test = suite.tests[name]
        is_known = name in (OF_PHP if server == "reprise-php" else {})
        is_bad = {"required": verdict.word == FAILED or is_due(test), "optimal": name not in NOT_OPTIMAL}.get(test.kind, False)
        if verdict.word != PASSED and is_bad and not is_known:
            rows[name] = f"{verdict.word}: {verdict.why}"
    return rows


def counts(suite: Suite, found: Found, kind: str) -> str:
    words = [verdict.word for name, verdict in found.items() if suite.tests[name].kind == kind]
    return " / ".join(str(words.count(word)) for word in (PASSED, FAILED, UNTESTED))


def _reason(test: Test, verdict: Verdict) -> str:
    known = next((table[test.name] for table in (UNPREPARED, NOT_OPTIMAL, OF_PHP) if test.name in table), None)
    return known or next((DECIDED[other] for other in test.depends_on if other in DECIDED), verdict.why)


def _passing(all_found: dict[str, Found], peers: list[str], name: str) -> list[str]:
    return [peer for peer in peers if peer in all_found and all_found[peer][name].word == PASSED]


def page(suite: Suite, all_found: dict[str, Found], machine: dict[str, str], peers: list[str]) -> Page:
    ours = all_found.get("reprise", {})
    php = all_found.get("reprise-php", ours)
    required, optimal = ([name for name in ours if suite.tests[name].kind == kind] for kind in ("required", "optimal"))
    failed = [name for name in required if ours[name].word == FAILED]
    silent = [name for name in required if ours[name].word == UNTESTED]
    worse = [name for name in optimal if ours[name].word != PASSED and _passing(all_found, peers, name)]
    totals = [[server, *(counts(suite, found, kind) for kind in ("required", "optimal"))] for server, found in all_found.items()]
    rows = [[f"`{name}`", suite.tests[name].kind, ours[name].word, _reason(suite.tests[name], ours[name]),
             ", ".join(_passing(all_found, peers, name)) or "–"]
            for name in [*required, *optimal] if ours[name].word != PASSED]
    rows += [[f"`{name}`", suite.tests[name].kind, f"{php[name].word} (`reprise-php`)", _reason(suite.tests[name], php[name]),
              ", ".join(_passing(all_found, peers, name)) or "–"]
             for name in [*required, *optimal] if php[name].word != PASSED and ours[name].word == PASSED]
    others = [[server, *(", ".join(f"`{name}`" for name, verdict in found.items() if suite.tests[name].kind == kind and verdict.word == FAILED) or "–"
                         for kind in ("required", "optimal"))] for server, found in all_found.items() if server in peers]
    summary = [
        f"What http-cache-tests says of Reprise with `cache_rules = \"rfc9111\"`, and of the caches of Debian: of the required tests Reprise fails "
        f"{len(failed)}, and {len(silent)} say nothing of it; of the optimal ones that another cache passes it fails {len(worse)}.",
        f"What it does not pass has a reason below. {' '.join(f'`{name}`' for name in worse) or 'Nothing'} is what another cache passes.",
        "All run in front of the suite's own origin, with the configurations of the suite's project; `reprise-php` is Reprise with the same origin "
        "as a PHP application (bench/scripts/conformance_origin.php).",
        "The judgement is the suite's own (its lib/display.mjs): a test says nothing if what it prepares does not succeed, or if a test that it "
        "depends on is not passed. A test counts as passed if it is passed in one of up to three runs: it waits for whole seconds, and other programs may run.",
        "Tests of the kind `check` only ask what a cache does, and are not listed.",
    ]
    return {"title": "Conformance of the cache", "summary": summary, "machine": machine, "sections": [
        section("Results", ["Passed / failed / says nothing."], ["cache", "required", "optimal"], totals),
        section("What Reprise does not pass", [], ["test", "kind", "verdict", "why", "passed by"], rows),
        section("What the others fail", [], ["cache", "required", "optimal"], others),
    ]}
