//! The little of HTTP/1 that a scrape needs: one request per connection, its head parsed by
//! `httparse`, one answer.

/// Longest head of a request that is read.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
const TEXT_TYPE: &str = "text/plain; charset=utf-8";
/// Of the text format that Prometheus reads.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer to the request of which `received` has come in; `None` if more of it must come.
/// `metrics` makes the text for which people ask.
pub fn answer(received: &[u8], metrics: &dyn Fn() -> String) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(received) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if received.len() < HEAD_BYTES_MAX => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some(refusal("431 Request Header Fields Too Large", ""));
        }
        Err(_) => return Some(refusal("400 Bad Request", "")),
    }
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    if target.split('?').next() != Some("/metrics") {
        return Some(refusal("404 Not Found", ""));
    }
    match method {
        "GET" => Some(response("200 OK", METRICS_TYPE, "", &metrics(), true)),
        "HEAD" => Some(response("200 OK", METRICS_TYPE, "", &metrics(), false)),
        _ => Some(refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n")),
    }
}

fn refusal(status: &str, header: &str) -> Vec<u8> {
    response(
        status,
        TEXT_TYPE,
        header,
        &format!("{status}: only GET /metrics is answered here\n"),
        true,
    )
}

/// `header`: one more, or nothing.
fn response(
    status: &str,
    content_type: &str,
    header: &str,
    body: &str,
    with_body: bool,
) -> Vec<u8> {
    let length = body.len();
    let shown = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{header}\
         Connection: close\r\n\r\n{shown}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(request: &str) -> Option<String> {
        answer(request.as_bytes(), &|| "terrace_x 1\n".to_owned())
            .map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn metrics_are_answered_and_nothing_else() {
        let get = reply("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(
            get.starts_with("HTTP/1.1 200 OK\r\n") && get.ends_with("\r\n\r\nterrace_x 1\n"),
            "{get}"
        );
        assert!(
            get.contains("\r\nContent-Length: 12\r\n") && get.contains("version=0.0.4"),
            "{get}"
        );
        let head = reply("HEAD /metrics HTTP/1.0\r\n\r\n").unwrap();
        assert!(
            head.contains("\r\nContent-Length: 12\r\n") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        assert!(reply("GET /metrics?a=b HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 200 "));
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
            ("POST /other HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
            ("\x16\x03\x01\x02", "400"),
            ("GET /metrics HTTP/3.0\r\n\r\n", "400"),
        ] {
            let refused = reply(request).unwrap();
            assert!(refused.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {refused}");
            assert_eq!(refused.contains("\r\nAllow: GET, HEAD\r\n"), status == "405");
        }
    }

    #[test]
    fn a_head_comes_in_pieces_but_not_without_end() {
        let whole = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(reply(&whole[..length]), None, "{length}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "b".repeat(HEAD_BYTES_MAX));
        assert!(reply(&long).unwrap().starts_with("HTTP/1.1 431 "));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1));
        assert!(reply(&many).unwrap().starts_with("HTTP/1.1 431 "));
    }
}
