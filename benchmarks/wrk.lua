-- Prints requests, microseconds in all, the median and 99th percentile of the microseconds of one, and failures.
function done(summary, latency)
  local failures = 0
  for _, count in pairs(summary.errors) do failures = failures + count end
  print(summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failures)
end
