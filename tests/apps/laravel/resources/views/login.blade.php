@extends('layouts.app')
@section('body')
@foreach ($errors->all() as $e)<p class="error">{{ $e }}</p>@endforeach
<form method="post" action="{{ route('login') }}">@csrf<input name="email" value="{{ old('email') }}"><input type="password" name="password"><input type="checkbox" name="remember" value="1"><button>Log in</button></form>
@endsection
