//! What a file is, by its first bytes. Neither its name nor what a site says of it counts: what is sent on from here is
//! a picture, and never a page or a script.

/// The formats that are sent on. SVG is none of them: it is a document that can run scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Jpeg,
    Png,
    WebP,
    Gif,
    Avif,
}

/// Brands of the ISO container that are still AVIF pictures or sequences of them.
const AVIF_BRANDS: [&[u8]; 2] = [b"avif", b"avis"];
/// Where compatible brands are looked for: the first box of a container.
const FIRST_BOX: usize = 256;

impl Format {
    /// What the bytes begin as, when it is a picture.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            [a, b, c, d, b'f', b't', b'y', b'p', brands @ ..] => {
                let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                let brands = &brands[..length.saturating_sub(8).min(brands.len()).min(FIRST_BOX)];
                brands.chunks_exact(4).any(|brand| AVIF_BRANDS.contains(&brand)).then_some(Self::Avif)
            }
            _ => None,
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::WebP => "image/webp",
            Self::Gif => "image/gif",
            Self::Avif => "image/avif",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_told_by_their_first_bytes_and_nothing_else_is_one() {
        for (bytes, format) in [
            (&b"\xff\xd8\xff\xe0\0\x10JFIF"[..], Format::Jpeg),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", Format::Png),
            (b"GIF89a\x01\0\x01\0", Format::Gif),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Format::WebP),
            (b"\0\0\0\x1cftypavif\0\0\0\0mif1avifmiaf", Format::Avif),
            (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", Format::Avif),
        ] {
            assert_eq!(Format::detect(bytes), Some(format), "{format:?}");
        }
        for bytes in [
            &b""[..],
            b"\xff\xd8",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            b"<!doctype html><img src=x>",
            b"GIF80a",
            b"RIFF\x10\0\0\0WAVEfmt ",
            b"\0\0\0\x1cftypheic\0\0\0\0mif1heic",
            b"\0\0\0\x08ftypavif",
            b"%PDF-1.7",
            b" \x89PNG\r\n\x1a\n",
        ] {
            assert_eq!(Format::detect(bytes), None, "{bytes:?}");
        }
    }
}
