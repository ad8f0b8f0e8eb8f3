//! The transport by itself, without the protocol library's loop.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;

struct Client {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
}

type Host = StdioTransport<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// A client and a transport with room for so many bytes between them.
fn connected(room: usize) -> (Client, Host) {
    let (client, host) = tokio::io::duplex(room);
    let (read, write) = tokio::io::split(client);
    let (input, output) = tokio::io::split(host);
    (Client { read: BufReader::new(read), write }, StdioTransport::new(input, output))
}

impl Client {
    async fn send(&mut self, message: &Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

fn call(id: usize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "arguments": {"n": id}}})
}

fn id_of(message: &ClientJsonRpcMessage) -> Value {
    match message {
        JsonRpcMessage::Request(request) => serde_json::to_value(&request.id).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn done(id: i64) -> ServerJsonRpcMessage {
    let result = rmcp::model::ServerResult::empty(());
    ServerJsonRpcMessage::response(result, RequestId::Number(id))
}

/// P13: calls beyond those in flight wait in order, a cancelled one is forgotten, and a ping passes them.
#[tokio::test]
async fn calls_wait_in_order_and_others_pass_them() {
    let (mut client, mut host) = connected(1 << 20);
    for id in 0..MAX_CALLS + 3 {
        client.send(&call(id)).await;
    }
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": MAX_CALLS + 1}});
    client.send(&cancelled).await;
    client.send(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
    for id in 0..MAX_CALLS {
        assert_eq!(id_of(&host.receive().await.unwrap()), json!(id));
    }
    assert_eq!(id_of(&host.receive().await.unwrap()), json!("p"));
    for (answered, next) in [(5, MAX_CALLS), (0, MAX_CALLS + 2)] {
        host.send(done(answered)).await.unwrap();
        assert_eq!(client.answer().await["id"], json!(answered));
        assert_eq!(id_of(&host.receive().await.unwrap()), json!(next));
    }
    assert_eq!((host.waiting.len(), host.waiting_bytes, host.order.len()), (0, 0, 0));
}

/// P13: an id that is in use is refused without taking the answer of the request that has it.
#[tokio::test]
async fn an_id_in_use_is_refused() {
    let (mut client, mut host) = connected(1 << 16);
    client.send(&call(1)).await;
    client.send(&call(1)).await;
    client.send(&call(2)).await;
    assert_eq!(id_of(&host.receive().await.unwrap()), json!(1));
    assert_eq!(id_of(&host.receive().await.unwrap()), json!(2));
    let refused = client.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    host.send(done(1)).await.unwrap();
    assert_eq!(client.answer().await["id"], json!(1));
    client.send(&call(1)).await;
    assert_eq!(id_of(&host.receive().await.unwrap()), json!(1));

    // What was cancelled may still be ending.
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    client.send(&call(1)).await;
    client.send(&call(3)).await;
    assert!(matches!(host.receive().await.unwrap(), JsonRpcMessage::Notification(_)));
    assert_eq!(id_of(&host.receive().await.unwrap()), json!(3));
    assert_eq!(client.answer().await["error"]["code"], json!(-32600));
}

/// P13: what a client doesn't read is bounded: reading stops until it does.
#[tokio::test]
async fn a_client_that_does_not_read_is_not_read() {
    let (mut client, mut host) = connected(1 << 10);
    let text = "x".repeat(MAX_UNSENT + (1 << 12));
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, text, None);
    let sent = host.send(ServerJsonRpcMessage::error(error, None));
    client.send(&call(1)).await;
    let mut receive = Box::pin(host.receive());
    for _ in 0..10 {
        tokio::select! {
            biased;
            _ = &mut receive => panic!("it was read too early"),
            () = tokio::task::yield_now() => {}
        }
    }
    let (received, answer) = tokio::join!(&mut receive, client.answer());
    assert_eq!((id_of(&received.unwrap()), &answer["error"]["code"]), (json!(1), &json!(-32603)));
    sent.await.unwrap();
}

/// P13: calls that are sent and cancelled while others run leave nothing behind.
#[tokio::test]
async fn cancelled_calls_leave_nothing() {
    let (mut client, mut host) = connected(4 << 20);
    for id in 0..MAX_CALLS {
        client.send(&call(id)).await;
        host.receive().await.unwrap();
    }
    for id in MAX_CALLS..20 * MAX_CALLS {
        client.send(&call(id)).await;
        client
            .send(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
            )
            .await;
    }
    client.send(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
    assert_eq!(id_of(&host.receive().await.unwrap()), json!("p"));
    assert_eq!((host.waiting.len(), host.waiting_bytes), (0, 0));
    assert!(host.order.len() <= MAX_CALLS + 1 && host.open.len() == MAX_CALLS + 1, "{}", host.order.len());
}

/// P13: calls that were read ahead run only as their answers are read, and as far as their bytes allow.
#[tokio::test]
async fn calls_wait_for_room_for_answers_and_arguments() {
    let (mut client, mut host) = connected(1 << 10);
    let large = |id: usize| {
        let text = "x".repeat(MAX_BYTES / 3);
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "arguments": {"n": text}}})
    };
    let calls = async {
        for id in 0..8 {
            client.send(&large(id)).await;
        }
        client
    };
    let handed_on = async {
        for id in 0..3 {
            assert_eq!(id_of(&host.receive().await.unwrap()), json!(id));
        }
        let next = tokio::time::timeout(GRACE, host.receive()).await;
        assert!(next.is_err(), "their bytes are full");
    };
    tokio::select! {
        biased;
        () = handed_on => {}
        _ = calls => panic!("all of them were read"),
    }
    assert!(host.call_bytes >= MAX_BYTES && host.calls == 3, "{} {}", host.call_bytes, host.calls);
}

/// P13: a client may say that it is ready, and subscribe, as often as it likes to no effect.
#[tokio::test]
async fn what_is_repeated_costs_nothing() {
    let (mut client, mut host) = connected(1 << 16);
    client.send(&call(1)).await;
    host.receive().await.unwrap();
    for _ in 0..3 {
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
    for id in 0..=MAX_SUBSCRIPTIONS {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        client.send(&json!({"jsonrpc": "2.0", "id": format!("s{id}"), "method": "subscriptions/listen", "params": params})).await;
    }
    assert!(matches!(host.receive().await.unwrap(), JsonRpcMessage::Notification(_)));
    for id in 0..MAX_SUBSCRIPTIONS {
        assert_eq!(id_of(&host.receive().await.unwrap()), json!(format!("s{id}")));
    }
    client.send(&call(2)).await;
    assert_eq!(id_of(&host.receive().await.unwrap()), json!(2));
    assert_eq!(client.answer().await["id"], json!(format!("s{MAX_SUBSCRIPTIONS}")));
}

/// P13: a stream that takes messages before it passes them on, as standard output does where it is a file, gets
/// all of them before the end.
#[tokio::test]
async fn nothing_is_lost_in_a_stream_with_a_buffer() {
    for _ in 0..50 {
        let (client, host) = tokio::io::duplex(1 << 16);
        let (mut read, mut write) = tokio::io::split(client);
        let (input, output) = tokio::io::split(host);
        let mut host = StdioTransport::new(input, tokio::io::BufWriter::new(output));
        for id in 0..2 {
            write.write_all(format!("{}\n", call(id)).as_bytes()).await.unwrap();
        }
        write.shutdown().await.unwrap();
        for id in 0..2 {
            host.receive().await.unwrap();
            drop(host.send(done(id)));
        }
        assert!(host.receive().await.is_none());
        drop(host);
        let mut all = String::new();
        read.read_to_string(&mut all).await.unwrap();
        assert_eq!(all.lines().count(), 2, "{all}");
    }
}

/// P13: when the client closes its side, what runs is answered, and then the transport ends.
#[tokio::test(start_paused = true)]
async fn the_end_waits_for_answers_but_not_for_ever() {
    let (mut client, mut host) = connected(1 << 16);
    client.write.write_all(call(1).to_string().as_bytes()).await.unwrap();
    client.write.shutdown().await.unwrap();
    assert_eq!(id_of(&host.receive().await.unwrap()), json!(1));
    assert!(tokio::time::timeout(GRACE / 2, host.receive()).await.is_err(), "it waits for the answer");
    host.send(done(1)).await.unwrap();
    assert!(host.receive().await.is_none());
    assert_eq!(client.answer().await["id"], json!(1));

    let (mut client, mut host) = connected(1 << 16);
    client.send(&call(1)).await;
    client.write.shutdown().await.unwrap();
    host.receive().await.unwrap();
    let since = Instant::now();
    assert!(host.receive().await.is_none());
    assert_eq!(since.elapsed(), GRACE);
}

/// P13: a client that is gone ends the transport.
#[tokio::test]
async fn a_broken_stream_is_the_end() {
    let (client, mut host) = connected(1 << 10);
    drop(client);
    assert!(host.send(done(1)).await.is_err());
    assert!(host.receive().await.is_none());
}

/// P13: every kind of noise has its answer or none, and the next request is read.
#[tokio::test]
async fn noise_is_answered_by_the_rules() {
    let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "i".repeat(1 << 20));
    let deep = "[".repeat(100_000);
    let table: &[(&str, Value, i64)] = &[
        ("{", Value::Null, -32700),
        ("nonsense", Value::Null, -32700),
        (&deep, Value::Null, -32600),
        ("[1]", Value::Null, -32600),
        ("5", Value::Null, -32600),
        ("{}", Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":7}"#, json!(7), -32600),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, json!(7), -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, json!(7), -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":1180591620717411303424,"method":"ping"}"#, Value::Null, -32600),
        (&long_id, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#, json!(7), -32602),
        (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}"#, json!(7), -32602),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":[]}}"#,
            json!(7),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"a":1,"a":2}}}"#,
            json!(7),
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}"#, json!(7), -32602),
    ];
    let (mut client, mut host) = connected(4 << 20);
    for (line, id, code) in table {
        client.write.write_all(format!("{line}\r\n\n").as_bytes()).await.unwrap();
        client.send(&call(1)).await;
        assert_eq!(id_of(&host.receive().await.unwrap()), json!(1));
        let answer = client.answer().await;
        let shown = line.chars().take(100).collect::<String>();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (id, &json!(code)), "{shown}: {answer}");
        host.send(done(1)).await.unwrap();
        client.answer().await;
    }
    for silent in [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
    ] {
        client.write.write_all(format!("{silent}\n").as_bytes()).await.unwrap();
    }
    client.write.shutdown().await.unwrap();
    assert!(host.receive().await.is_none());
    drop(host);
    let mut rest = String::new();
    client.read.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
}
