<?php
namespace App\Http\Controllers;

use App\Models\{Message, Post};
use Illuminate\Http\Request;

class FormController extends Controller
{
    public function contact() { return view('contact', ['messages' => Message::orderBy('id')->get()]); }
    public function send(Request $r)
    {
        Message::create($r->validate(['name' => 'required|max:40', 'email' => 'required|email', 'message' => 'required|min:10']));
        return redirect()->route('contact')->with('status', 'Your message is kept');
    }
    public function comment(Request $r, Post $post)
    {
        $said = $r->validate(['author' => 'required', 'text' => 'required']);
        $post->comments()->forceCreate($said + ['post_id' => $post->id, 'created_at' => now()]);
        return redirect()->route('post', $post);
    }
    /** For clients that want JSON. */
    public function check(Request $r) { return $r->validate(['n' => 'required|integer|between:1,9', 'tags.*' => 'alpha']); }
}
