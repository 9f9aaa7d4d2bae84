<?php
namespace App\Http\Controllers;

use App\Exceptions\Told;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\{Auth, Cookie};

/** Says what it has been told, and by whom. */
class MarkController extends Controller
{
    public function mark(string $what, Request $r)
    {
        // Laravel takes cookies for its own, encrypted; this one is the visitor's.
        $mark = $_COOKIE['mark'] ?? null;
        $r->session()->has('mark') || $r->session()->put('mark', $mark);
        $file = $r->file('file');
        $told = [
            'user' => Auth::user()->name ?? 'nobody', 'get' => $r->query('q'), 'post' => $r->post('field'), 'cookie' => $mark, 'header' => $r->header('X-Mark'),
            'session' => $r->session()->get('mark'), 'file' => $file?->getClientOriginalName(), 'content' => $file?->get(), 'mode' => reprise_info()['mode'],
        ];
        $headers = ['X-Told' => $told['get'], 'X-Worker' => getmypid()];
        if ($what === 'error') { throw new Told("boom $told[get]"); }
        if ($what === 'redirect') { return redirect('/mark/page?q=' . $told['get'])->with('status', $told['get']); }
        if ($what === 'stream') { return response()->stream(function () use ($told) { foreach ($told as $name => $value) { echo json_encode([$name => $value]), "\n"; flush(); } }, 200, $headers); }
        Cookie::queue('told', $told['get']);
        return response()->json($told)->withHeaders($headers)->withCookie('seen', $told['get']);
    }
}
