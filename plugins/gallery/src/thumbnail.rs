//! From a stranger's file to a small JPEG, within limits of pixels and memory. Decoders are pure Rust.

use std::io::Cursor;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, Rgb, RgbImage};

/// The longer side at most. A client chooses among these, or it could fill the cache with every size.
pub(crate) const SIZES: [u32; 3] = [160, 320, 640];
pub(crate) const DEFAULT_SIZE: u32 = 320;

const QUALITY: u8 = 82;
const MAX_SIDE: u32 = 30_000;
/// Of a decoder, for a pixel: four channels of 16 bits.
const MAX_BYTES_PER_PIXEL: u64 = 8;

/// A small JPEG, and how large the original is.
#[derive(Clone, Debug)]
pub(crate) struct Thumbnail {
    pub jpeg: Bytes,
    pub width: u32,
    pub height: u32,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PictureError {
    #[error("the file is no JPEG, PNG or WebP picture")]
    Format,
    #[error("the picture has {} megapixels, more than {} are not decoded", .0.div_ceil(1_000_000), .1 / 1_000_000)]
    TooManyPixels(u64, u64),
    #[error("the picture is longer than {MAX_SIDE} pixels, or takes too much memory")]
    TooLarge(#[source] ImageError),
    #[error("the picture is damaged")]
    Damaged(#[source] ImageError),
}

impl From<ImageError> for PictureError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Limits(_) => Self::TooLarge(error),
            _ => Self::Damaged(error),
        }
    }
}

/// Makes the thumbnail; takes long, so it is run where it may block.
pub(crate) fn make(file: &[u8], size: u32, max_pixels: u64) -> Result<Thumbnail, PictureError> {
    let format = image::guess_format(file).ok().filter(|format| is_read(*format)).ok_or(PictureError::Format)?;
    let mut reader = ImageReader::with_format(Cursor::new(file), format);
    reader.limits(limits(max_pixels));
    let mut decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > max_pixels {
        return Err(PictureError::TooManyPixels(pixels, max_pixels));
    }
    let orientation = decoder.orientation()?;
    let whole = DynamicImage::from_decoder(decoder)?;
    let mut small = if width.max(height) > size { whole.thumbnail(size, size) } else { whole };
    small.apply_orientation(orientation);
    let (width, height) = if is_turned(orientation) { (height, width) } else { (width, height) };
    let mut jpeg = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut jpeg, QUALITY);
    on_white(&small).write_with_encoder(encoder)?;
    Ok(Thumbnail { jpeg: jpeg.into(), width, height })
}

fn is_read(format: ImageFormat) -> bool {
    matches!(format, ImageFormat::Jpeg | ImageFormat::Png | ImageFormat::WebP)
}

/// Whether the camera was held upright: width and height change places.
fn is_turned(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
}

fn limits(max_pixels: u64) -> Limits {
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(max_pixels * MAX_BYTES_PER_PIXEL);
    limits
}

/// JPEG has no transparency: what shines through is white, as in shops.
fn on_white(image: &DynamicImage) -> RgbImage {
    if !image.color().has_alpha() {
        return image.to_rgb8();
    }
    let image = image.to_rgba8();
    RgbImage::from_fn(image.width(), image.height(), |x, y| {
        let [r, g, b, alpha] = image.get_pixel(x, y).0;
        Rgb([r, g, b].map(|channel| blend(channel, alpha)))
    })
}

fn blend(channel: u8, alpha: u8) -> u8 {
    let (channel, alpha) = (u32::from(channel), u32::from(alpha));
    u8::try_from((channel * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use image::{ImageFormat, Rgba, RgbaImage};

    use super::{Cursor, PictureError, make};

    fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let image = RgbaImage::from_pixel(width, height, Rgba([200, 0, 0, 0]));
        let mut file = Cursor::new(Vec::new());
        match format {
            ImageFormat::Jpeg => image::DynamicImage::from(image).to_rgb8().write_to(&mut file, format).unwrap(),
            _ => image.write_to(&mut file, format).unwrap(),
        }
        file.into_inner()
    }

    #[test]
    fn pictures_become_small_jpegs_of_their_own_shape() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP] {
            let thumbnail = make(&picture(1000, 500, format), 160, 1_000_000).unwrap();
            let small = image::load_from_memory(&thumbnail.jpeg).unwrap();
            assert_eq!((small.width(), small.height(), thumbnail.width, thumbnail.height), (160, 80, 1000, 500));
        }
        let tiny = make(&picture(10, 20, ImageFormat::Png), 160, 1_000_000).unwrap();
        let small = image::load_from_memory(&tiny.jpeg).unwrap().to_rgb8();
        assert_eq!((small.dimensions(), small.get_pixel(5, 5).0), ((10, 20), [255; 3]), "transparent is white");
    }

    #[test]
    fn what_is_too_large_or_no_picture_is_refused_before_it_is_decoded() {
        let refused = make(&picture(1001, 1000, ImageFormat::Png), 160, 1_000_000).unwrap_err();
        assert!(matches!(refused, PictureError::TooManyPixels(1_001_000, 1_000_000)), "{refused}");
        // A header that promises 65535 × 65535 pixels, and nothing behind it.
        let mut bomb = picture(1, 1, ImageFormat::Png);
        bomb[16..24].copy_from_slice(&[0, 0, 255, 255, 0, 0, 255, 255]);
        assert!(make(&bomb, 160, 40_000_000).is_err());
        for file in [&b""[..], b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"GIF89a\x01\x00\x01\x00", b"%PDF-1.7"] {
            assert!(matches!(make(file, 160, 1_000_000), Err(PictureError::Format)), "{file:?}");
        }
        let long = make(&picture(30_001, 1, ImageFormat::Png), 160, 1_000_000).unwrap_err();
        assert!(matches!(long, PictureError::TooLarge(_)), "{long}");
        let whole = picture(300, 300, ImageFormat::Jpeg);
        assert!(matches!(make(&whole[..20], 160, 1_000_000), Err(PictureError::Damaged(_))));
    }
}
