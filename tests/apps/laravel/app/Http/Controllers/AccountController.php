<?php
namespace App\Http\Controllers;

use Illuminate\Http\Request;
use Illuminate\Support\Facades\{App, Auth, Cache, Cookie, DB, View};

/** What a process that goes on could keep of a visitor. */
class AccountController extends Controller
{
    /** Kept with the controller: a request must never see another's. */
    public function __construct(private Request $made) {}
    public function form() { return view('account.login'); }
    public function login(Request $r)
    {
        if (!Auth::attempt($r->validate(['name' => 'required', 'password' => 'required']), true)) {
            return redirect('/account/login')->withInput($r->only('name'))->withErrors(['name' => "no user {$r->input('name')} with that password"]);
        }
        $r->session()->regenerate();
        Cookie::queue('who', Auth::user()->name);
        return redirect()->intended('/account')->with('status', 'welcome ' . Auth::user()->name);
    }
    public function account(Request $r) { return view('account.account', ['mark' => $this->made->cookie('mark'), 'asked' => $this->made->query('asked')]); }
    public function logout(Request $r) { Auth::logout(); $r->session()->invalidate(); return redirect('/account/login'); }
    /** Sets what a worker keeps, if nobody sets it back. */
    public function changed(string $locale)
    {
        App::setLocale($locale);
        config(['app.name' => "Blog $locale"]);
        View::share('shared', $locale);
        return view('account.login');
    }
    public function exits(string $text) { View::share('shared', $text); Cookie::queue('left', $text); Cache::store('array')->put('who', $text); DB::beginTransaction(); echo "left with $text"; exit; }
}
