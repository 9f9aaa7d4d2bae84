@extends('layouts.app')
@section('body')
@if (session('status'))<p class="flash">{{ session('status') }}</p>@endif
@foreach ($errors->all() as $e)<p class="error">{{ $e }}</p>@endforeach
<form method="post" enctype="multipart/form-data">@csrf<input name="title" value="{{ old('title') }}"><input type="file" name="files[]" multiple><button>Send</button></form>
<ul>@foreach ($files as $f)<li><a href="{{ route('file', $f[0]) }}">{{ $f[0] }}</a> {{ $f[1] }} {{ $f[2] }}</li>@endforeach</ul>
@endsection
