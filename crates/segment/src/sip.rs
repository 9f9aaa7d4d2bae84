//! SipHash-1-3 (Aumasson and Bernstein, 2012), with a secret of the segment: nobody outside can choose keys that meet in one bucket.

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// The hash of `bytes`. It is never 0.
pub fn hash(secret: [u64; 2], bytes: &[u8]) -> u64 {
    let mut v = [
        secret[0] ^ 0x736f_6d65_7073_6575,
        secret[1] ^ 0x646f_7261_6e64_6f6d,
        secret[0] ^ 0x6c79_6765_6e65_7261,
        secret[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]);
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    let mut last = (bytes.len() as u64) << 56;
    for (place, &byte) in words.remainder().iter().enumerate() {
        last |= u64::from(byte) << (8 * place);
    }
    v[3] ^= last;
    round(&mut v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut v);
    }
    (v[0] ^ v[1] ^ v[2] ^ v[3]).max(1)
}

#[cfg(test)]
mod tests {
    /// The same as the standard library's, which is SipHash-1-3 with the secret 0.
    #[test]
    fn it_is_siphash() {
        use std::hash::{DefaultHasher, Hasher};
        let text: Vec<u8> = (0..64).collect();
        for size in 0..64 {
            #[allow(deprecated)]
            let mut known = DefaultHasher::new();
            known.write(&text[..size]);
            assert_eq!(super::hash([0, 0], &text[..size]), known.finish(), "{size}");
        }
    }
}
