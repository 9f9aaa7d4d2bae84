//! What a request brings after a snapshot: its own, all of it, and nothing of the boot's or another's.

use tests::client::multipart;
use tests::snapshot::{both, snapshot};

/// As dotenv does it, and with every superglobal used by the boot already.
const BOOT: &str = r#"
$_SERVER['APP_ENV'] = $_ENV['APP_ENV'] = 'test'; putenv('APP_ENV=test');
if (isset($_SERVER['REPRISE_BOOT'])) $_SERVER['REQUEST_URI'] = '/of-the-boot';
$boot = [count($_GET), count($_POST), count($_COOKIE), count($_FILES), count($_REQUEST), file_get_contents('php://input')];
"#;

const CASES: &str = r#"
case 'all':
    $server = array_intersect_key($_SERVER, array_flip(['REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'HTTP_HOST', 'HTTP_X_OWN', 'HTTP_COOKIE',
        'CONTENT_TYPE', 'CONTENT_LENGTH', 'PHP_AUTH_USER', 'PHP_AUTH_PW', 'AUTH_TYPE', 'APP_ENV', 'REPRISE_BOOT', 'SCRIPT_NAME', 'PATH_INFO', 'HTTPS']));
    ksort($server);
    $files = array_map(fn ($file) => [$file['name'], $file['error'], $file['size'], md5_file($file['tmp_name'])], $_FILES);
    echo json_encode([$server, $_GET, $_POST, $_COOKIE, $files, md5(file_get_contents('php://input')), getenv('APP_ENV'), $_ENV['APP_ENV'] ?? null, getallheaders()['X-Own'] ?? null,
        filter_input(INPUT_GET, 'n'), filter_input(INPUT_SERVER, 'REQUEST_METHOD')], JSON_UNESCAPED_SLASHES);
    break;
case 'request': require 'request.php'; break;
case 'unread': echo 'unread'; break;
case 'move': move_uploaded_file($_FILES['f']['tmp_name'], getenv('PLACE') . '/moved'); echo md5_file(getenv('PLACE') . '/moved'); break;
case 'left': echo count(glob(sys_get_temp_dir() . '/php??????')), count(glob(getenv('PLACE') . '/php*')); break;
case 'boot': echo json_encode($boot); break;
case 'length': header('Content-Length: 5'); echo 'hello'; break;
case 'answer': http_response_code(404); header('X-Header: v'); echo json_encode(apache_response_headers()); break;
case 'path': echo $_SERVER['REQUEST_URI'], ' ', $_SERVER['DOCUMENT_URI'] ?? '', ' ', $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['SCRIPT_NAME']; break;
"#;

/// Each request has its own query, form, cookies, headers, body and server variables.
#[test]
fn each_request_has_its_own_input() {
    // A file that is compiled after the snapshot and is the first to name $_REQUEST.
    let request = "<?php echo json_encode([$_REQUEST, $_SERVER['REQUEST_METHOD']]);";
    both(
        || {
            let setup = snapshot(BOOT, CASES).file("request.php", request);
            let place = setup.directory().join("place").to_str().unwrap().to_owned();
            setup.ini("upload_tmp_dir", &place).ini("request_order", "GP").ini("variables_order", "EGPCS")
        },
        |lane| {
            let mut client = lane.client();
            assert_eq!(lane.text("boot"), "[0,0,0,0,0,\"\"]");
            let bare = "[{\"APP_ENV\":\"test\",\"CONTENT_LENGTH\":\"\",\"CONTENT_TYPE\":\"\",\"HTTP_HOST\":\"a\",\"QUERY_STRING\":\"do=all\",\"REQUEST_METHOD\":\"GET\",\"REQUEST_URI\":\"/?do=all\",\"SCRIPT_NAME\":\"/index.php\"},{\"do\":\"all\"},[],[],[],\"d41d8cd98f00b204e9800998ecf8427e\",\"test\",\"test\",null,null,\"GET\"]";
            let plain = |client: &mut tests::Client| {
                let text = client.request("GET", "/?do=all", &[("Host", "a")], b"").text();
                assert_eq!(text, bare, "{}", lane.isolation);
            };
            for round in 0..8 {
                plain(&mut client);
                let headers = [
                    ("Host", "b.example"),
                    ("X-Own", "mine"),
                    ("Cookie", "c=1; d=2"),
                    ("Authorization", "Basic dXNlcjpzZWNyZXQ="),
                ];
                let with = client.request("GET", "/?do=all&n=5", &headers, b"").text();
                for part in [
                    "\"HTTP_HOST\":\"b.example\"",
                    "\"HTTP_X_OWN\":\"mine\"",
                    "\"PHP_AUTH_USER\":\"user\"",
                    "\"PHP_AUTH_PW\":\"secret\"",
                    "{\"c\":\"1\",\"d\":\"2\"}",
                    "\"test\",\"test\",\"mine\",\"5\",\"GET\"]",
                ] {
                    assert!(with.contains(part), "{part} in round {round}: {with}");
                }
                plain(&mut client);
                let form =
                    client.post_form("/?do=all", &[("Host", "a")], &[("field", "value"), ("list[x]", "1")]).text();
                assert!(form.contains("{\"field\":\"value\",\"list\":{\"x\":\"1\"}}"), "{form}");
                assert!(form.contains("\"CONTENT_LENGTH\":\"25\""), "{form}");
                plain(&mut client);
                let json = [("Host", "a"), ("Content-Type", "application/json")];
                let large = "j".repeat(300_000 + round);
                let sent = client.request("POST", "/?do=all", &json, large.as_bytes()).text();
                assert!(sent.contains(&format!("\"CONTENT_LENGTH\":\"{}\"", large.len())), "{sent}");
                assert!(!sent.contains("d41d8cd98f00b204e9800998ecf8427e"), "the body is there: {sent}");
                plain(&mut client);
                let request = client.post_form("/?do=request&a=1", &[], &[("b", "2")]).text();
                assert_eq!(request, "[{\"do\":\"request\",\"a\":\"1\",\"b\":\"2\"},\"POST\"]");
                assert_eq!(client.request("POST", "/?do=unread", &json, large.as_bytes()).text(), "unread");
                plain(&mut client);
            }
        },
    );
}

/// Uploaded files are there during their request and gone after it.
#[test]
fn uploads_are_there_and_gone() {
    both(
        || {
            let setup = snapshot(BOOT, CASES);
            let place = setup.directory().join("place").to_str().unwrap().to_owned();
            setup.ini("upload_tmp_dir", &place)
        },
        |lane| {
            let mut client = lane.client();
            for round in 0..8u8 {
                let bytes: Vec<u8> = (0..1_500_000u32).map(|n| (n % 251) as u8 ^ round).collect();
                let files: [(&str, &str, &str, &[u8]); 2] =
                    [("f", "a.bin", "application/octet-stream", &bytes), ("g", "b.txt", "text/plain", b"hello")];
                let (kind, body) = multipart(&[("field", "value")], &files);
                let headers = [("Content-Type", kind.as_str())];
                let all = client.request("POST", "/?do=all", &headers, &body).text();
                assert!(all.contains("\"f\":[\"a.bin\",0,1500000,"), "{all}");
                assert!(all.contains("\"g\":[\"b.txt\",0,5,\"5d41402abc4b2a76b9719d911017c592\"]"), "{all}");
                let moved = client.request("POST", "/?do=move", &headers, &body).text();
                assert!(all.contains(&moved), "{moved} is not in {all}");
                assert!(std::fs::read(lane.directory().join("place/moved")).unwrap() == bytes);
                assert!(lane.text("left").ends_with('0'), "temporary files stay");
            }
        },
    );
}

/// HEAD, path info, status, headers and redirects work from a snapshot as in classic mode.
#[test]
fn heads_paths_and_answers() {
    both(
        || snapshot(BOOT, CASES),
        |lane| {
            let mut client = lane.client();
            for _ in 0..10 {
                let head = client.request("HEAD", "/?do=length", &[], b"");
                assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("5"), 0));
                assert_eq!(client.get("/?do=length").text(), "hello");
                let answer = client.get("/?do=answer");
                assert_eq!((answer.status, answer.header("x-header")), (404, Some("v")));
                assert!(answer.text().contains("\"X-Header\":\"v\""), "{}", answer.text());
                assert_eq!(client.get("/a/b?do=path").text(), "/a/b?do=path /index.php - /index.php");
                assert_eq!(client.get("/index.php?do=path").text(), "/index.php?do=path /index.php - /index.php");
                assert_eq!(client.get("/?do=answer").all("x-header").len(), 1);
                let other = client.request("DELETE", "/?do=all", &[("Content-Type", "a/b")], b"bytes").text();
                assert!(other.contains("\"DELETE\"") && other.contains("\"CONTENT_TYPE\":\"a/b\""), "{other}");
            }
        },
    );
}
