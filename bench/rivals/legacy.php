<?php
// The old website limited like this: one locked file per client, with the times of its requests.

$address = $_SERVER['HTTP_X_FORWARDED_FOR'] ?? $_SERVER['REMOTE_ADDR'];
$file = fopen(getenv('TMPDIR') . '/client-' . md5($address), 'c+');
flock($file, LOCK_EX);
$now = microtime(true);
$recent = array_filter(
    array_map('floatval', explode("\n", trim(stream_get_contents($file)))),
    fn ($time) => $time > $now - 60
);
header('Content-Type: application/json');
header('X-RateLimit-Limit: 60');
header('X-RateLimit-Remaining: ' . max(0, 59 - count($recent)));
if (count($recent) >= 60) {
    http_response_code(429);
    header('Retry-After: ' . ceil(min($recent) + 60 - $now));
    exit(json_encode(['ok' => false]));
}
$recent[] = $now;
ftruncate($file, 0);
rewind($file);
fwrite($file, implode("\n", $recent));
fclose($file);

echo json_encode(['ok' => true, 'data' => [
    'status' => 'ok',
    'version' => 'v1',
    'timestamp' => date(DATE_ATOM),
    'checks' => ['api' => 'ok', 'mail' => 'ok'],
]]);
