//! What a client has said on a connection that may be kept, and what its server replies to a reset.

use db_session::plan::{MOST_RESET, Plan, Protocol};
use db_session::protocols::{judge, plan, text};
use db_session::reset::{NONCE, Verdict, nonce};
use db_session::traffic::Traffic;

/// A reset is whole messages, whatever was said; bytes end where they end, in whatever pieces they come; and no reply is right without
/// the random number.
pub fn check(bytes: &[u8]) {
    let letters: [u8; NONCE] = nonce([1, 2, 3, 4, 5, 6, 7, 8]);
    let mut plans = [Protocol::Mysql, Protocol::Postgres, Protocol::Redis].map(Plan::new).to_vec();
    for protocol in [Protocol::Mysql, Protocol::Postgres, Protocol::Redis] {
        let (mut whole, mut pieces) = (Traffic::default(), Traffic::default());
        whole.follow(protocol, bytes);
        bytes.iter().for_each(|byte| pieces.follow(protocol, &[*byte]));
        assert_eq!(whole, pieces);
    }
    if let Ok(made) = plan(bytes) {
        assert!(made.bytes().len() <= MOST_RESET && made.replies <= 64);
        let mut said = vec![];
        assert!(text(&made, false, &letters, &mut |part| {
            said.extend_from_slice(part);
            true
        }));
        let mut traffic = Traffic::default();
        traffic.follow(made.protocol, &said);
        assert!(traffic.is_at_end(), "{said:?}");
        plans.push(made);
    }
    for made in &plans {
        for in_transaction in [false, true] {
            let (verdict, _) = judge(made, in_transaction, &letters, bytes);
            assert!(verdict != Verdict::Right || bytes.windows(NONCE).any(|some| some == letters));
        }
    }
}
