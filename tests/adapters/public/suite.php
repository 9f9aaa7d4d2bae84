<?php

/*
 * Runs test cases of PHPUnit in the process that serves this request, for the functions that they use exist in no other: one line for each test, then
 * the totals. ?case=NAME names a file beside this one; ?only=WORD tests whose names contain it.
 */

declare(strict_types=1);

use PHPUnit\Framework\Test;
use PHPUnit\Framework\TestCase;
use PHPUnit\Framework\TestListener;
use PHPUnit\Framework\TestListenerDefaultImplementation;
use PHPUnit\Framework\TestResult;
use PHPUnit\Framework\TestSuite;

/** Prints what comes out of each test. */
final class Lines implements TestListener
{
    use TestListenerDefaultImplementation;

    private ?string $word = null;

    private function note(string $word, ?Throwable $why): void
    {
        $this->word ??= $word . ($why === null ? '' : ': ' . strtok(get_class($why) . ' ' . trim($why->getMessage()), "\n"));
    }

    public function addError(Test $test, Throwable $t, float $time): void
    {
        $this->note('fails', $t);
    }

    public function addFailure(Test $test, PHPUnit\Framework\AssertionFailedError $e, float $time): void
    {
        $this->note('fails', $e);
    }

    public function addWarning(Test $test, PHPUnit\Framework\Warning $e, float $time): void
    {
        $this->note('fails', $e);
    }

    public function addSkippedTest(Test $test, Throwable $t, float $time): void
    {
        $this->note('skips', $t);
    }

    public function addIncompleteTest(Test $test, Throwable $t, float $time): void
    {
        $this->note('skips', $t);
    }

    public function endTest(Test $test, float $time): void
    {
        if ($test instanceof TestCase) {
            [$word, $why] = explode(': ', ($this->word ?? 'passes') . ': ', 2);
            printf("%s %s::%s%s\n", $word, (new ReflectionClass($test))->getShortName(), preg_replace('/\s+/', ' ', $test->getName()), $why === '' ? '' : ': ' . rtrim($why, ': '));
        }
        $this->word = null;
    }
}

return static function (): void {
    set_time_limit(0);
    // Line by line: some tests sleep.
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    ob_implicit_flush();
    $result = new TestResult();
    $result->addListener(new Lines());
    $suite = new TestSuite();
    foreach (require __DIR__ . '/' . basename($_GET['case']) . '.php' as $class) {
        $suite->addTestSuite(new ReflectionClass($class));
    }
    $only = $_GET['only'] ?? '';
    if ($only !== '') {
        $filter = new PHPUnit\Runner\Filter\Factory();
        $filter->addFilter(new ReflectionClass(PHPUnit\Runner\Filter\NameFilterIterator::class), $only);
        $suite->injectFilter($filter);
    }
    $suite->run($result);
    printf("tests %d, failed %d, skipped %d\n", $result->count(), $result->errorCount() + $result->failureCount() + $result->warningCount(), $result->skippedCount() + $result->notImplementedCount());
};
