//! Requests for metrics.

// A file of the command, which is no library: it needs nothing but the parser.
#[path = "../../../../crates/terrace/src/metrics/http.rs"]
mod answers;

/// What has come in of a request, as it is and with what a reader waits for.
pub fn http(data: &[u8]) {
    for data in [data, &[data, b"\r\n\r\n"].concat()] {
        match answers::answer(data, &|| "terrace_x 1\n".to_owned()) {
            None => assert!(data.len() < answers::HEAD_BYTES_MAX, "more is waited for without end"),
            Some(answer) => {
                let answer = String::from_utf8(answer).expect("nothing of the request comes back");
                let (head, body) = answer.split_once("\r\n\r\n").expect("a head that ends");
                let told = head
                    .lines()
                    .find_map(|line| line.strip_prefix("Content-Length: "))
                    .expect("a length");
                let told: usize = told.parse().expect("a number");
                assert!(
                    head.starts_with("HTTP/1.1 ") && (body.len() == told || body.is_empty()),
                    "{answer}"
                );
            }
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let requests = [
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "HEAD /metrics?a=b HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\n",
    ];
    let many = format!("GET /metrics HTTP/1.1\r\n{}", "A: b\r\n".repeat(63));
    requests.iter().map(|text| text.as_bytes().to_vec()).chain([many.into_bytes()]).collect()
}
