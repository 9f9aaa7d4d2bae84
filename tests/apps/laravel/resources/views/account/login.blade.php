@extends('layouts.app')
@section('body')<form method="post" action="/account/login">@csrf
<p>{{ $errors->first('name') }} {{ session('status') }} {{ $shared ?? 'nothing shared' }},
locale {{ app('translator')->getLocale() }}, cached {{ cache()->store('array')->get('who', 'nothing') }}, transactions {{ DB::transactionLevel() }}</p>
<input name="name" value="{{ old('name') }}"><input name="password" type="password"><button>Log in</button></form>@endsection
