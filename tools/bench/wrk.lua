-- Each request comes from the next client address. A run that begins a second later begins 100,000 addresses further on,
-- so that two runs share no clients.
-- Arguments: method, path.

local head, tail
local client = os.time() * 100000 % 2 ^ 24

local function contact_form()
  local rendered = os.time() * 1000 - 10000
  return '{"form_type":"ventas","nombre":"María Núñez","empresa":"Comercio Ejemplo S.L.","email":"maria@example.com",'
    .. '"telefono":"+34 600 000 000","tema":"Tarifas","mensaje":"Quisiera conocer sus tarifas.\\n¿Es posible hablar el'
    .. ' jueves por la mañana?","captcha_expected":"aB3dE","captcha_input":"ab3de","_bp_check":"","ts":'
    .. rendered .. '}'
end

function init(args)
  local method, path = args[1], args[2]
  head = method .. " " .. path .. " HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: "
  tail = "\r\n\r\n"
  if method == "POST" then
    local body = contact_form()
    tail = "\r\nContent-Type: application/json\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
  end
end

function request()
  client = (client + 1) % 2 ^ 24
  local address = "10." .. math.floor(client / 65536) .. "." .. math.floor(client / 256) % 256 .. "." .. client % 256
  return head .. address .. tail
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('\n{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "failed": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
