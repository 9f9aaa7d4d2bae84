@extends('layouts.app')
@section('body')
@if (session('status'))<p class="flash">{{ session('status') }}</p>@endif
@foreach ($errors->all() as $e)<p class="error">{{ $e }}</p>@endforeach
<form method="post">@csrf<input name="name" value="{{ old('name') }}"><input name="email" value="{{ old('email') }}"><textarea name="message">{{ old('message') }}</textarea><button>Send</button></form>
<ul>@foreach ($messages as $m)<li>{{ $m->id }} {{ $m->name }} {{ $m->email }}: {{ $m->message }}</li>@endforeach</ul>
@endsection
