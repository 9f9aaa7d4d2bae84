<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{ implode(', ', $settings) }}</title></head>
<body><nav><ul>@foreach ($menu as $point)<li class="{{ implode(' ', $point['classes']) }}"><a href="{{ $point['url'] }}">{{ $point['label'] }}</a></li>@endforeach</ul></nav>
<main><table>@foreach ($products as $row)<tr>@foreach ($row as $cell)<td>{{ $cell }}</td>@endforeach</tr>@endforeach</table></main>
@foreach ($fragments as $fragment)<section>{!! $fragment !!}</section>@endforeach</body></html>
