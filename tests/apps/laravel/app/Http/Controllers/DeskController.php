<?php
namespace App\Http\Controllers;

use Illuminate\Http\Request;
use Illuminate\Support\Facades\Auth;
use Illuminate\Validation\ValidationException;

/** Logging in and out. */
class DeskController extends Controller
{
    public function form() { return view('login'); }
    public function login(Request $r)
    {
        $who = $r->validate(['email' => 'required|email', 'password' => 'required']);
        if (!Auth::attempt($who, $r->boolean('remember'))) { throw ValidationException::withMessages(['email' => __('auth.failed')]); }
        $r->session()->regenerate();
        return redirect()->intended('/desk');
    }
    public function desk(Request $r) { return view('desk', ['user' => $r->user(), 'remembered' => Auth::viaRemember()]); }
    public function me(Request $r) { return $r->user(); }
    public function logout(Request $r)
    {
        Auth::logout();
        $r->session()->invalidate();
        $r->session()->regenerateToken();
        return redirect('/');
    }
}
