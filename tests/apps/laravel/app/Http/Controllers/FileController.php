<?php
namespace App\Http\Controllers;

use Illuminate\Http\Request;
use Illuminate\Support\Facades\Storage;

class FileController extends Controller
{
    public function index() { return view('files', ['files' => collect(Storage::files('uploads'))->map(fn ($f) => [basename($f), Storage::size($f), md5(Storage::get($f))])]); }
    public function add(Request $r)
    {
        $r->validate(['title' => 'required', 'files' => 'required', 'files.*' => 'file|max:200|mimes:txt,gif']);
        foreach ($r->file('files') as $file) {
            // A fixed time, so that what is served of it later does not depend on when it came.
            touch(Storage::path($file->storeAs('uploads', $file->getClientOriginalName())), 1700000000);
        }
        return back()->with('status', count($r->file('files')) . ' files for ' . $r->input('title'));
    }
    public function show(string $name)
    {
        abort_unless(Storage::exists("uploads/$name"), 404);
        return response()->file(Storage::path("uploads/$name"));
    }
    public function download(string $name) { return Storage::download("uploads/$name", "a copy of $name"); }
    public function drop(string $name) { Storage::delete("uploads/$name"); return redirect()->route('files'); }
}
