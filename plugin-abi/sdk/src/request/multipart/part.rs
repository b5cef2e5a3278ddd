//! One part of a form: a field, or a file.

use bytes::{Bytes, BytesMut};

use super::Multipart;
use crate::{Error, Result};

/// A field of a form, or a file. It borrows the form: read it, or drop it, before the next one.
///
/// ```
/// use cardinal_plugin::{Error, Request, Result, bytes::Bytes};
///
/// /// The picture of a form, of at most 5 MiB.
/// async fn picture(req: &Request) -> Result<Bytes> {
///     let mut form = req.multipart()?;
///     while let Some(part) = form.next().await? {
///         if part.name() == "picture" {
///             if part.content_type() != Some("image/png") {
///                 return Err(Error::unprocessable("Only PNG, please.").field("/picture", "is not image/png"));
///             }
///             return part.bytes(5 << 20).await;
///         }
///     }
///     Err(Error::unprocessable("There is no picture.").field("/picture", "is missing"))
/// }
/// ```
#[derive(Debug)]
pub struct Part<'a> {
    pub(super) form: &'a mut Multipart,
    pub(super) name: String,
    pub(super) file_name: Option<String>,
    pub(super) content_type: Option<String>,
}

impl Part<'_> {
    /// Returns the name of the field. Several parts may have the same one.
    ///
    /// ```
    /// use cardinal_plugin::{Part, Result};
    ///
    /// async fn supplier(part: Part<'_>) -> Result<Option<String>> {
    ///     if part.name() == "supplier" { part.text(100).await.map(Some) } else { Ok(None) }
    /// }
    /// # use cardinal_plugin::{PluginContext, Request, Response, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(_: PluginContext, req: Request) -> cardinal_plugin::Result<Response> {
    /// #     let mut form = req.multipart()?;
    /// #     let part = form.next().await?.unwrap();
    /// #     Ok(Response::text(format!("{:?}", supplier(part).await?)))
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let form = "--x\r\nContent-Disposition: form-data; name=\"supplier\"\r\n\r\noak-and-co\r\n--x--\r\n";
    /// # let request = TestRequest::post("/").body("multipart/form-data; boundary=x", form);
    /// # let reply = block_on(host.call(handler, request));
    /// # assert_eq!(reply.text(), r#"Some("oak-and-co")"#);
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file's name as the client says it, for a part that is a file. Never use it as a path.
    ///
    /// ```
    /// use cardinal_plugin::Part;
    ///
    /// /// What to call the picture in a list: never where to store it.
    /// fn label(part: &Part<'_>) -> String {
    ///     part.file_name().unwrap_or("a picture").chars().take(80).collect()
    /// }
    /// # use cardinal_plugin::{PluginContext, Request, Response, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(_: PluginContext, req: Request) -> cardinal_plugin::Result<Response> {
    /// #     let mut form = req.multipart()?;
    /// #     let part = form.next().await?.unwrap();
    /// #     Ok(Response::text(format!("{:?}", label(&part))))
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let form = "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"lamp.png\"\r\n\r\n\r\n--x--\r\n";
    /// # let request = TestRequest::post("/").body("multipart/form-data; boundary=x", form);
    /// # let reply = block_on(host.call(handler, request));
    /// # assert_eq!(reply.text(), r#""lamp.png""#);
    /// ```
    pub fn file_name(&self) -> Option<&str> {
        self.file_name.as_deref()
    }

    /// Returns the media type as the client says it. The content may be something else.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Part, Result};
    ///
    /// fn check_picture(part: &Part<'_>) -> Result<()> {
    ///     match part.content_type() {
    ///         Some("image/png" | "image/jpeg") => Ok(()),
    ///         _ => Err(Error::unprocessable("A picture is PNG or JPEG.").field("/picture", "is neither")),
    ///     }
    /// }
    /// # use cardinal_plugin::{PluginContext, Request, Response, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(_: PluginContext, req: Request) -> cardinal_plugin::Result<Response> {
    /// #     let mut form = req.multipart()?;
    /// #     let part = form.next().await?.unwrap();
    /// #     Ok(Response::text(format!("{:?}", check_picture(&part).is_ok())))
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let form = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: image/png\r\n\r\n\r\n--x--";
    /// # let request = TestRequest::post("/").body("multipart/form-data; boundary=x", form);
    /// # let reply = block_on(host.call(handler, request));
    /// # assert_eq!(reply.text(), r#"true"#);
    /// ```
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// Returns the next piece of the content; `None` at its end.
    ///
    /// ```
    /// use cardinal_plugin::{Part, Result, tokio::{fs::File, io::AsyncWriteExt}};
    ///
    /// async fn store(mut part: Part<'_>, file: &mut File) -> Result<()> {
    ///     while let Some(piece) = part.chunk().await? {
    ///         file.write_all(&piece).await?;
    ///     }
    ///     Ok(file.flush().await?)
    /// }
    /// ```
    ///
    /// # Errors
    /// 400 when the form breaks off, and the errors of [`ByteStream::next`].
    ///
    /// [`ByteStream::next`]: crate::ByteStream::next
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        self.form.piece().await
    }

    /// Reads the whole content, of at most `most` bytes, into memory.
    ///
    /// ```
    /// use cardinal_plugin::{Part, Result, bytes::Bytes};
    ///
    /// /// 413 for more than 5 MiB.
    /// async fn picture(part: Part<'_>) -> Result<Bytes> {
    ///     part.bytes(5 << 20).await
    /// }
    /// # use cardinal_plugin::{PluginContext, Request, Response, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(_: PluginContext, req: Request) -> cardinal_plugin::Result<Response> {
    /// #     let mut form = req.multipart()?;
    /// #     let part = form.next().await?.unwrap();
    /// #     Ok(Response::text(format!("{:?}", picture(part).await?.len())))
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let form = "--x\r\nContent-Disposition: form-data; name=\"picture\"\r\n\r\nGIF89a\r\n--x--\r\n";
    /// # let request = TestRequest::post("/").body("multipart/form-data; boundary=x", form);
    /// # let reply = block_on(host.call(handler, request));
    /// # assert_eq!(reply.text(), r#"6"#);
    /// ```
    ///
    /// # Errors
    /// 413 `payload-too-large` when it has more bytes than `most`, and the errors of [`chunk`](Self::chunk).
    pub async fn bytes(mut self, most: usize) -> Result<Bytes> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.chunk().await? {
            if whole.len() + piece.len() > most {
                let detail = format!("The part `{}` has more than {most} bytes.", self.name);
                return Err(Error::with_code(413, "payload-too-large", detail));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Reads the whole content, of at most `most` bytes, as text.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Part, Result};
    ///
    /// async fn stars(part: Part<'_>) -> Result<u8> {
    ///     let text = part.text(10).await?;
    ///     text.trim().parse().map_err(|_| Error::unprocessable("Stars are 1 to 5.").field("/stars", "is no number"))
    /// }
    /// # use cardinal_plugin::{PluginContext, Request, Response, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(_: PluginContext, req: Request) -> cardinal_plugin::Result<Response> {
    /// #     let mut form = req.multipart()?;
    /// #     let part = form.next().await?.unwrap();
    /// #     Ok(Response::text(format!("{:?}", stars(part).await?)))
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let form = "--x\r\nContent-Disposition: form-data; name=\"stars\"\r\n\r\n5\r\n--x--\r\n";
    /// # let request = TestRequest::post("/").body("multipart/form-data; boundary=x", form);
    /// # let reply = block_on(host.call(handler, request));
    /// # assert_eq!(reply.text(), r#"5"#);
    /// ```
    ///
    /// # Errors
    /// 422, with the field's pointer, when it is not UTF-8, and the errors of [`bytes`](Self::bytes).
    pub async fn text(self, most: usize) -> Result<String> {
        let pointer = crate::input::pointer(&self.name);
        let bytes = self.bytes(most).await?;
        let not_text = |_| Error::unprocessable("A field of the form is not UTF-8.").field(&pointer, "is not UTF-8");
        String::from_utf8(bytes.to_vec()).map_err(not_text)
    }
}
