//! What texts were parsed to before the snapshot (reprise-classes.php): the same as in classic mode, for WordPress' own parser alone.

use std::fs;

use tests::Server;
use tests::bridged::{self, HOST};

use super::start;

/// `/?parse=CASE` says what parsing the post that the warm-up has shown comes to.
const CASES: &str = r#"<?php
trait Noted { public function add_freeform($length = null) { parent::add_freeform($length); $this->output[] = ['blockName' => 'odd', 'attrs' => [], 'innerBlocks' => [], 'innerHTML' => 'odd', 'innerContent' => ['odd']]; } }
class Early extends WP_Block_Parser { use Noted; }
add_action('plugins_loaded', static function () { class Late extends WP_Block_Parser { use Noted; } class Same extends WP_Block_Parser {} });
add_action('template_redirect', static function () {
    if (!isset($_GET['parse'])) return;
    $text = get_page_by_path('post-5', OBJECT, 'post')->post_content;
    $state = static function ($text, $class = 'WP_Block_Parser') { $parser = new $class(); return [$parser->parse($text), get_object_vars($parser)]; };
    $known = Closure::bind(static fn () => isset(static::$known) ? array_keys(static::$known) : [], null, 'WP_Block_Parser')();
    switch ($_GET['parse']) {
        case 'known': exit(json_encode([in_array($text, $known, true), $text !== '', array_sum(array_map('strlen', $known)) > 0]));
        case 'poison':
            Closure::bind(static function () use ($text) { static::$known[$text]['output'] = ['poisoned']; }, null, 'WP_Block_Parser')();
            exit(json_encode([parse_blocks($text), $state($text, 'Same')[0] === ['poisoned'], count($state($text . ' ')[0]) > 0]));
        case 'filter':
            add_filter('block_parser_class', static fn () => $_GET['class']);
            exit(json_encode([parse_blocks($text), do_blocks($text), $state($text, $_GET['class'])]));
        case 'changed':
            $blocks = parse_blocks($text);
            $blocks[0]['innerHTML'] = 'changed';
            $blocks[] = 'more';
            exit(json_encode([$blocks, parse_blocks($text), serialize_blocks(parse_blocks($text))]));
        case 'twice':
            $parser = new WP_Block_Parser();
            exit(json_encode([$parser->parse($text), $parser->parse('other'), get_object_vars($parser), $parser->parse($text), get_object_vars($parser)]));
        default:
            exit(json_encode([$state($text), $state(''), $state($text . '<!-- wp:more /-->'), $state('<!-- wp:a -->' . $text), do_blocks($text)]));
    }
});
"#;

#[test]
fn what_was_parsed_before_the_snapshot_is_what_classic_mode_parses() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/cases.php"), CASES).unwrap();
    let [classic, kept] =
        ["classic", "snapshot"].map(|mode| start(&root, mode, "env.REPRISE_WARMUP = \"/ /post-5/ /feed/\""));
    let said = |server: &Server, query: &str| {
        server.client().request("GET", &format!("/?parse={query}"), &[("Host", HOST)], b"").text()
    };
    assert_eq!(said(&classic, "known"), "[false,true,false]");
    assert_eq!(said(&kept, "known"), "[true,true,true]");
    for query in ["all", "twice", "changed", "filter&class=Early", "filter&class=Late", "filter&class=Same"] {
        for _ in 0..2 {
            let expected = said(&classic, query);
            assert!(expected.starts_with('[') && expected.contains("innerHTML"), "{query}: {expected}");
            assert_eq!(said(&kept, query), expected, "{query}");
        }
    }
    // It is asked for there, by WordPress' own parser alone, and a request changes it for itself.
    assert_eq!(said(&kept, "poison"), r#"[["poisoned"],false,true]"#);
    assert_eq!(said(&kept, "all"), said(&classic, "all"));
}
