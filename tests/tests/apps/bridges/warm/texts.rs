//! What texts were parsed to before the snapshot (mu-plugins/reprise/parser.php): the same as in classic mode, for WordPress' own parser alone.

use std::fs;

use tests::Server;
use tests::bridged::{self, HOST, php};

use super::start;

/// `/?parse=CASE` says what parsing the post that the warm-up has shown comes to.
const CASES: &str = r#"<?php
trait Noted { public function add_freeform($length = null) { parent::add_freeform($length); $this->output[] = ['blockName' => 'odd', 'attrs' => [], 'innerBlocks' => [], 'innerHTML' => 'odd', 'innerContent' => ['odd']]; } }
class Early extends WP_Block_Parser { use Noted; }
add_action('plugins_loaded', static function () { class Late extends WP_Block_Parser { use Noted; } class Same extends WP_Block_Parser {} });
add_action('template_redirect', static function () {
    if (!isset($_GET['parse'])) return;
    $text = get_page_by_path($_GET['post'] ?? 'post-5', OBJECT, 'post')->post_content;
    $state = static function ($text, $class = 'WP_Block_Parser') { $parser = new $class(); return [$parser->parse($text), get_object_vars($parser)]; };
    $known = class_exists('Reprise\WordPress\Texts', false) ? Reprise\WordPress\Texts::$known : [];
    switch ($_GET['parse']) {
        case 'known': exit(json_encode([isset($known[$text]), strlen($text)]));
        case 'size': exit((string) array_sum(array_map('strlen', array_keys($known))));
        case 'poison':
            Reprise\WordPress\Texts::$known[$text]['output'] = ['poisoned'];
            exit(json_encode([parse_blocks($text), $state($text, 'Same')[0] === ['poisoned'], count($state($text . ' ')[0]) > 0]));
        case 'filter':
            add_filter('block_parser_class', static fn () => $_GET['class']);
            exit(json_encode([parse_blocks($text), $state($text, $_GET['class'])]));
        case 'changed':
            $blocks = parse_blocks($text);
            $blocks[0]['innerHTML'] = 'changed';
            $blocks[0]['attrs']['more'] = 'changed';
            $blocks[] = 'more';
            exit(json_encode([$blocks, parse_blocks($text), serialize_blocks(parse_blocks($text))]));
        case 'twice':
            $parser = new WP_Block_Parser();
            exit(json_encode([$parser->parse($text), $parser->parse('other'), get_object_vars($parser), $parser->parse($text), get_object_vars($parser)]));
        default:
            exit(json_encode([var_export($state($text), true), $state(''), $state($text . '<!-- wp:more /-->'), $state('<!-- wp:a -->' . $text), do_blocks($text)]));
    }
});
"#;

/// Posts by name: nested blocks with all kinds of attributes, blocks deeper than PHP unserialises, more than is kept, and six that are more together.
const POSTS: &str = r#"<?php
require 'wp-load.php';
$nested = '<!-- wp:group {"layout":{"type":"flex"},"list":[1,2.5,0.1,1.2345678901234567,1e100,null,true,{}],"empty":[],"text":"a\u002d\u002db"} --><div><!-- wp:columns --><p>in</p><!-- wp:odd/own {"a":{"b":{"c":[]}}} /--> between <!-- /wp:columns --></div><!-- /wp:group -->free<!-- wp:more /-->';
$deep = str_repeat('<!-- wp:a -->', 2500) . 'deep' . str_repeat('<!-- /wp:a -->', 2500);
$large = static fn (int $count) => str_repeat('<!-- wp:paragraph --><p>' . str_repeat('word ', 50) . '</p><!-- /wp:paragraph -->', $count);
foreach (['nested' => $nested, 'deep' => $deep, 'large' => $large(7000), 'part-1' => $large(500), 'part-2' => $large(501), 'part-3' => $large(502), 'part-4' => $large(503), 'part-5' => $large(504), 'part-6' => $large(505), 'unopened' => '<!-- /wp:a -->x<!-- wp:b {"a":1} -->', 'plain' => '12345'] as $name => $content) {
    kses_remove_filters();
    // The large ones are on no page that lists the latest.
    $date = strlen($content) > 100000 ? '2001-01-01 00:00:00' : '';
    wp_insert_post(['post_date' => $date, 'post_name' => $name, 'post_title' => $name, 'post_status' => 'publish', 'post_content' => wp_slash($content)]);
}
echo 'posted';
"#;

#[test]
fn what_was_parsed_before_the_snapshot_is_what_classic_mode_parses() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("posts.php"), POSTS).unwrap();
    let code = format!("$_SERVER['HTTP_HOST'] = '{HOST}'; chdir('htdocs'); require 'posts.php';");
    assert_eq!(php(&code, &application), "posted");
    fs::write(root.join("wp-content/mu-plugins/cases.php"), CASES).unwrap();
    // The feed has them all, and comes when little room is left.
    let pages = "/deep/ /large/ /post-5/ /nested/ /unopened/ /plain/ /part-1/ /part-2/ /part-3/ /part-4/ /part-5/ /part-6/ /feed/";
    let [classic, kept] =
        ["classic", "snapshot"].map(|mode| start(&root, mode, &format!("env.REPRISE_WARMUP = \"{pages}\"")));
    let said = |server: &Server, query: &str| {
        server.client().request("GET", &format!("/?parse={query}"), &[("Host", HOST)], b"").text()
    };
    for (post, is_kept) in
        [("post-5", true), ("nested", true), ("unopened", true), ("plain", true), ("large", false), ("deep", false)]
    {
        let [expected, answer] = [&classic, &kept].map(|server| said(server, &format!("known&post={post}")));
        assert!(expected.starts_with("[false,"), "{post}: {expected}");
        assert_eq!(answer, expected.replace("false", if is_kept { "true" } else { "false" }), "{post}");
    }
    let parts = (1..=6).filter(|part| said(&kept, &format!("known&post=part-{part}")).starts_with("[true,")).count();
    assert!((1..6).contains(&parts), "{parts} of six, which are more than is kept");
    let size: usize = said(&kept, "size").parse().unwrap();
    assert!(size < 2 << 20, "{size}");
    for post in ["post-5", "nested", "unopened", "plain"] {
        for query in ["all", "twice", "changed", "filter&class=Early", "filter&class=Late", "filter&class=Same"] {
            let query = format!("{query}&post={post}");
            for _ in 0..2 {
                let expected = said(&classic, &query);
                assert!(expected.starts_with('[') && expected.contains("innerHTML"), "{query}: {expected}");
                assert_eq!(said(&kept, &query), expected, "{query}");
            }
        }
    }
    // It is asked for there, by WordPress' own parser alone, and a request changes it for itself.
    for _ in 0..8 {
        assert_eq!(said(&kept, "poison"), r#"[["poisoned"],false,true]"#);
        assert_eq!(said(&kept, "all"), said(&classic, "all"));
    }
    assert!(!kept.log().contains("nothing is kept of the page"), "{}", kept.log());
}
