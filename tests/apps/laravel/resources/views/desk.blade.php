@extends('layouts.app')
@section('body')<p>Desk of {{ $user->name }}@if ($remembered), remembered @endif</p><form method="post" action="{{ route('logout') }}">@csrf<button>Log out</button></form>@endsection
