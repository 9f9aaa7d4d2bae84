//! Compresses bytes.

use std::io::{self, Write};

use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::write::GzEncoder;
use zstd::zstd_safe::CParameter;

use super::Coding;

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// For one client, while it waits.
    Once,
    /// For all that will ask.
    Kept,
}

/// Logarithm of the bytes that an encoder of a body of unknown length looks back. It bounds its memory.
const WINDOW_LOG: u32 = 18;

/// Compresses what is written to it.
pub struct Encoder {
    inner: Inner,
    /// Whether it holds bytes that are not in its output.
    is_dirty: bool,
}

enum Inner {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Br(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Encoder {
    /// `length`: of all that will be written, if it is known.
    pub fn new(coding: Coding, length: Option<u64>, effort: Effort) -> io::Result<Encoder> {
        let inner = match coding {
            Coding::Zstd => {
                let level = if effort == Effort::Kept { 6 } else { 3 };
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
                if length.is_none_or(|length| length > 1 << WINDOW_LOG) {
                    encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
                }
                encoder.set_pledged_src_size(length)?;
                Inner::Zstd(encoder)
            }
            Coding::Br => {
                let size_hint = length.map_or(0, |length| usize::try_from(length).unwrap_or(0));
                let parameters = BrotliEncoderParams {
                    quality: if effort == Effort::Kept { 5 } else { 4 },
                    lgwin: WINDOW_LOG as i32,
                    size_hint,
                    ..BrotliEncoderParams::default()
                };
                Inner::Br(Box::new(brotli::CompressorWriter::with_params(Vec::new(), 4096, &parameters)))
            }
            Coding::Gzip => {
                let level = flate2::Compression::new(if effort == Effort::Kept { 6 } else { 4 });
                Inner::Gzip(GzEncoder::new(Vec::new(), level))
            }
        };
        Ok(Encoder { inner, is_dirty: false })
    }

    /// Takes these bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.is_dirty |= !bytes.is_empty();
        match &mut self.inner {
            Inner::Zstd(encoder) => encoder.write_all(bytes),
            Inner::Br(encoder) => encoder.write_all(bytes),
            Inner::Gzip(encoder) => encoder.write_all(bytes),
        }
    }

    /// From now on the output decodes to all that was written.
    pub fn flush(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_dirty) {
            return Ok(());
        }
        match &mut self.inner {
            Inner::Zstd(encoder) => encoder.flush(),
            Inner::Br(encoder) => encoder.flush(),
            Inner::Gzip(encoder) => encoder.flush(),
        }
    }

    /// Whether nothing is held back.
    pub const fn is_flushed(&self) -> bool {
        !self.is_dirty
    }

    /// Bytes of output.
    pub fn ready(&self) -> usize {
        match &self.inner {
            Inner::Zstd(encoder) => encoder.get_ref().len(),
            Inner::Br(encoder) => encoder.get_ref().len(),
            Inner::Gzip(encoder) => encoder.get_ref().len(),
        }
    }

    /// Takes the output.
    pub fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(match &mut self.inner {
            Inner::Zstd(encoder) => encoder.get_mut(),
            Inner::Br(encoder) => encoder.get_mut(),
            Inner::Gzip(encoder) => encoder.get_mut(),
        }))
    }

    /// The rest of the output, with its end.
    pub fn finish(self) -> io::Result<Bytes> {
        let rest = match self.inner {
            Inner::Zstd(encoder) => encoder.finish()?,
            Inner::Br(encoder) => encoder.into_inner(),
            Inner::Gzip(encoder) => encoder.finish()?,
        };
        Ok(Bytes::from(rest))
    }
}

/// All of a body at once.
pub fn whole(coding: Coding, bytes: &[u8], effort: Effort) -> io::Result<Bytes> {
    let mut encoder = Encoder::new(coding, Some(bytes.len() as u64), effort)?;
    encoder.write(bytes)?;
    let mut whole = Vec::from(encoder.finish()?);
    whole.shrink_to_fit();
    Ok(Bytes::from(whole))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use super::*;

    /// What these bytes decode to, as far as they go.
    pub fn decoded(coding: Coding, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let mut all = Vec::new();
        let mut reader: Box<dyn Read> = match coding {
            Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
            Coding::Br => Box::new(brotli::Decompressor::new(bytes, 4096)),
            Coding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        };
        let result = reader.read_to_end(&mut all).map(drop);
        (all, result)
    }

    /// Text that does not repeat itself at once.
    pub fn text(bytes: usize) -> Vec<u8> {
        let mut text = Vec::new();
        let mut number = 1u32;
        while text.len() < bytes {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.extend_from_slice(format!("<p class=\"a\">{:x}</p>\n", number >> 8).as_bytes());
        }
        text.truncate(bytes);
        text
    }

    #[test]
    fn what_is_compressed_decodes_to_the_same() {
        for coding in Coding::ALL {
            for size in [0, 1, 100, 5000, 300_000, 1_000_000] {
                for effort in [Effort::Once, Effort::Kept] {
                    let text = text(size);
                    let small = whole(coding, &text, effort).unwrap();
                    let (all, result) = decoded(coding, &small);
                    assert!(result.is_ok() && all == text, "{coding:?} {size} {result:?}");
                    assert!(size < 5000 || small.len() < size / 2, "{coding:?} {size} {}", small.len());
                }
            }
        }
    }

    #[test]
    fn what_is_flushed_can_be_read_at_once_and_has_no_end() {
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding, None, Effort::Once).unwrap();
            let (mut written, mut sent) = (Vec::new(), Vec::new());
            for size in [1, 10, 40_000, 3] {
                let text = text(size);
                encoder.write(&text).unwrap();
                assert!(!encoder.is_flushed());
                encoder.flush().unwrap();
                assert!(encoder.is_flushed());
                written.extend_from_slice(&text);
                sent.extend_from_slice(&encoder.take());
                let (all, result) = decoded(coding, &sent);
                assert!(all == written, "{coding:?}: {} of {} bytes", all.len(), written.len());
                assert!(result.is_err(), "{coding:?}: nothing says that there is more");
            }
            encoder.flush().unwrap();
            assert_eq!(encoder.ready(), 0, "{coding:?}: there was nothing to flush");
            sent.extend_from_slice(&encoder.finish().unwrap());
            assert!(decoded(coding, &sent).1.is_ok());
        }
    }
}
