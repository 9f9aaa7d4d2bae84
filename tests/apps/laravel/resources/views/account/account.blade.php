@extends('layouts.app')
@section('body')<p>Account of {{ auth()->user()->name }}, {{ $mark }} asked {{ $asked }}: {{ session('status') }}, {{ $shared ?? 'nothing shared' }}</p>
<form method="post" action="/account/logout">@csrf<button>Log out</button></form>@endsection
