//! Laravel's views, whose files change while the application runs.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use tests::bridged::{LARAVEL_WARM, build_bridged, served_in};
use tests::peer::run_to_end;
use tests::wait_until;

use super::{ANNA, BERT, LARAVEL, Pair, bridged, plain};

/// A page that includes a view twice; in between its compiled files go, or the view throws.
const ROUTE: &str = r"
Illuminate\Support\Facades\Route::get('/views/{what}/{mark}', function (string $what, string $mark) {
    $pages = [];
    foreach ([$what, 'nothing'] as $now) {
        try {
            $pages[] = view('own.outer', ['mark' => $mark, 'now' => $now])->render();
        } catch (Throwable $error) {
            $pages[] = get_class($error) . ': ' . $error->getMessage();
        }
    }
    return response(implode('|', $pages))->header('Content-Type', 'text/plain');
});
";
const OUTER: &str =
    "@include('own.part') @php $now !== 'cleared' || Artisan::call('view:clear') @endphp @include('own.part')";
const PART: &str = "WORD {{ $mark }} @php $now !== 'throws' || throw new LogicException('not today') @endphp";

fn write(application: &Path, view: &str, text: &str) {
    let file = application.join("resources/views").join(view);
    fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    fs::write(file, text).expect("a view");
}

fn is_compiled_now(application: &Path) -> bool {
    let now = SystemTime::now();
    let files = fs::read_dir(application.join("storage/framework/views")).expect("compiled views");
    let changes = files.filter_map(|file| file.expect("a file").metadata().ok()?.modified().ok());
    changes.into_iter().any(|change| seconds(change) >= seconds(now))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970").as_secs()
}

/// A view is as its file is when the request comes, one that the warm-up has rendered too; a request whose compiled views are taken away goes on.
#[test]
fn views_of_laravel_are_those_of_now() {
    let (_place, application) = build_bridged("laravel");
    let routes = application.join("routes/web.php");
    let own = fs::read_to_string(&routes).expect("routes");
    fs::write(&routes, own + ROUTE).expect("routes");
    run_to_end(std::process::Command::new("php").args(["artisan", "route:cache"]).current_dir(&application));
    write(&application, "own/outer.blade.php", OUTER);
    let post = fs::read_to_string(application.join("resources/views/blog/_post.blade.php")).expect("a view");
    let root = application.join("public");
    for mode in ["snapshot", "worker"] {
        write(&application, "own/part.blade.php", &PART.replace("WORD", &format!("zero-{mode}")));
        write(&application, "blog/_post.blade.php", &post);
        let mut pair = Pair::start(bridged(&root, mode, LARAVEL_WARM), plain(&root), &LARAVEL);
        let mut visitors = [(pair.visitor(ANNA), ANNA, BERT), (pair.visitor(BERT), BERT, ANNA)];
        for word in ["one", "two"] {
            let word = format!("{word}-{mode}");
            // Opcache knows a changed file by the second of its change.
            wait_until("a second in which no view was compiled", 20, || !is_compiled_now(&application));
            write(&application, "own/part.blade.php", &PART.replace("WORD", &word));
            write(&application, "blog/_post.blade.php", &format!("{post}<i>{word}</i>"));
            // PHP itself looks for changes of a compiled file every two seconds.
            for path in ["/", "/views/nothing/x"] {
                wait_until("the views as they are now", 20, || {
                    pair.visitor(ANNA).iter_mut().all(|visitor| visitor.get(path).text().contains(&word))
                });
            }
            for (who, mark, other) in &mut visitors {
                for path in ["cleared", "throws", "nothing"].map(|what| format!("/views/{what}/{mark}")) {
                    let page = pair.same(who, other, &path, |visitor| visitor.get(&path));
                    assert_eq!(page.status, 200, "{}", page.text());
                    assert!(page.text().contains(&format!("{word} {mark}")), "{path}: {}", page.text());
                    assert_eq!(page.text().contains("not today"), path.contains("throws"), "{path}: {}", page.text());
                }
                let page = pair.same(who, other, "/", |visitor| visitor.get("/"));
                assert!(page.text().contains(&word), "{}", page.text());
            }
        }
        served_in(&pair.bridged, mode);
    }
}
