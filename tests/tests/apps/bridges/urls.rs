//! URLs of Laravel's routes.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::bridged::{LARAVEL_WARM, build_bridged, served_in};
use tests::peer::run_to_end;

use super::{ANNA, BERT, LARAVEL, Pair, bridged, plain};

/// A page that makes URLs after it has done something to a route or to the maker of URLs.
const ROUTE: &str = r#"
Illuminate\Support\Facades\Route::get('/urls/{what}/{mark}', function (string $what, string $mark) {
    $routes = app('router')->getRoutes();
    $urls = [route('post', 5)];
    match ($what) {
        'changed' => $routes->getByName('post')->setUri("$mark/{post}"),
        'default' => url()->defaults(['mark' => $mark]),
        'rooted' => url()->forceRootUrl("http://$mark.test"),
        'replaced' => app('router')->setRoutes(tap(new Illuminate\Routing\RouteCollection(), fn ($all) => $all->add(
            (new Illuminate\Routing\Route('GET', "$mark/{post}", fn () => ''))->name('post')))),
        'added' => app('router')->get("added/$mark/{n}", fn () => '')->name('added') && $routes->refreshNameLookups(),
        default => null,
    };
    foreach (['post' => 6, 'urls' => ['what' => 'x', 'mark' => 'y'], 'section3' => [1, 2], 'added' => 3, 'nowhere' => []] as $name => $parameters) {
        try {
            $urls[] = route($name, $parameters) . ' ' . route($name, $parameters, false);
        } catch (Throwable $error) {
            $urls[] = get_class($error);
        }
    }
    $urls[] = implode(' ', app('router')->current()->parameters());
    return response(implode("\n", $urls))->header('Content-Type', 'text/plain');
})->name('urls');
"#;

fn add_routes(application: &Path, more: &str) {
    let routes = application.join("routes/web.php");
    let own = fs::read_to_string(&routes).expect("routes");
    fs::write(&routes, own + more).expect("routes");
    run_to_end(Command::new("php").args(["artisan", "route:cache"]).current_dir(application));
}

/// Each visitor's URLs are those under PHP-FPM, whatever a page before has done to the routes or to the maker of URLs.
#[test]
fn urls_of_laravel_are_the_request_s() {
    let (_place, application) = build_bridged("laravel");
    add_routes(&application, ROUTE);
    let root = application.join("public");
    // A worker's router is that of all its requests, as under Octane.
    for (mode, all) in [
        ("snapshot", ["changed", "default", "rooted", "replaced", "added"].as_slice()),
        ("worker", &["changed", "rooted"]),
    ] {
        let mut pair = Pair::start(bridged(&root, mode, LARAVEL_WARM), plain(&root), &LARAVEL);
        let mut visitors = [(pair.visitor(ANNA), ANNA, BERT), (pair.visitor(BERT), BERT, ANNA)];
        for what in all {
            for (who, mark, other) in &mut visitors {
                for path in [format!("/urls/nothing/{mark}"), format!("/urls/{what}/{mark}"), "/".to_owned()] {
                    let page = pair.same(who, other, &path, |visitor| visitor.get(&path));
                    assert_eq!(page.status, 200, "{}", page.text());
                }
            }
        }
        served_in(&pair.bridged, mode);
    }
}

const DRAWN: &str = r"
Illuminate\Support\Facades\Route::get('/drawn/{seed}/{count}', function (int $seed, int $count) {
    require_once base_path('drawn.php');
    return response()->json(DrawnUrls::compare($seed, $count), 200, [], JSON_INVALID_UTF8_SUBSTITUTE);
});
";

/// URLs of routes and parameters that are drawn by lot are those that Laravel makes of them, and errors are its errors.
#[test]
fn urls_of_drawn_routes_are_laravel_s() {
    let (_place, application) = build_bridged("laravel");
    add_routes(&application, DRAWN);
    fs::write(application.join("drawn.php"), include_str!("urls/drawn.php")).expect("a file");
    for mode in ["snapshot", "worker"] {
        let server = bridged(&application.join("public"), mode, LARAVEL_WARM).start();
        for seed in 1..=4 {
            let page = server.get(&format!("/drawn/{seed}/2500"));
            let found: Value =
                serde_json::from_str(&page.text()).unwrap_or_else(|error| panic!("{error}: {}", page.text()));
            assert_eq!(found["own"], r"Reprise\Laravel\RouteUrls", "{mode}");
            assert_eq!(found["differ"], json!([]), "{mode}, seed {seed}: URI, parameters, ours, Laravel's");
            // Neither all nor none: both ways are compared.
            let [compared, plain, thrown] =
                ["compared", "plain", "thrown"].map(|what| found[what].as_u64().expect("a number"));
            assert!(
                plain > compared / 4 && compared - plain > compared / 4 && thrown > compared / 8,
                "{mode}: {found}"
            );
        }
        served_in(&server, mode);
    }
}
