<?php
namespace App\Http\Controllers;

use App\Models\Post;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\{Cookie, URL};

/** Answers that are more than a page. */
class AnswerController extends Controller
{
    public function away(int $status) { return redirect()->away('https://other.example/a?b=c#d', $status); }
    public function stream() { return response()->stream(function () { for ($i = 0; $i < 5; $i++) { echo "chunk $i\n"; ob_get_level() && ob_flush(); flush(); } }, 200, ['Content-Type' => 'text/plain']); }
    public function report()
    {
        return response()->streamDownload(function () {
            $out = fopen('php://output', 'w');
            foreach (Post::orderBy('id')->cursor() as $p) { fputcsv($out, [$p->id, $p->title, $p->body]); flush(); }
        }, 'report.csv', ['Content-Type' => 'text/csv']);
    }
    public function nothing() { return response()->noContent(); }
    public function cookies() { return response('ok')->cookie('plain', 'a value', 5)->cookie(Cookie::forget('gone')); }
    public function showCookie(Request $r) { return response('cookie ' . $r->cookie('plain', 'none'))->header('Content-Type', 'text/plain'); }
    public function exits() { header('X-Exit: yes'); http_response_code(202); echo 'ended early'; exit; }
    public function fail() { throw new \RuntimeException('boom'); }
    public function late() { return response()->stream(function () { echo "half of it\n"; flush(); throw new \RuntimeException('in the middle'); }, 200, ['Content-Type' => 'text/plain']); }
    public function status(int $status) { abort($status, 'as asked', ['Retry-After' => '7']); }
    public function sign() { return redirect(URL::signedRoute('signed', ['who' => 'reader'])); }
    public function signed(string $who) { return response("signed for $who")->header('Content-Type', 'text/plain'); }
    public function cached(Request $r)
    {
        $response = response('worth keeping')->setEtag('v1')->setLastModified(new \DateTime('@1700000000'))->setPublic()->setMaxAge(60);
        $response->isNotModified($r);
        return $response;
    }

    /** Events that leave as they are made: one at once, the rest when the file is there. */
    public function events(Request $r)
    {
        [$file, $last] = [$r->query('file'), (int) $r->query('last')];
        return response()->stream(function () use ($file, $last) {
            register_shutdown_function(fn () => file_put_contents("$file.ended", connection_aborted()));
            foreach (self::made($file, $last) as $event) { echo $event; ob_get_level() && ob_flush(); flush(); }
        }, 200, ['Content-Type' => 'text/event-stream']);
    }

    private static function made(string $file, int $last): \Generator
    {
        yield "data: first\n\n";
        while (!file_exists($file)) { usleep(2000); clearstatcache(); }
        for ($i = 1; $i <= $last; $i++) { usleep(500); yield "data: next $i\n\n"; }
    }
}
