// The format of a program's own lines.
#pragma once

namespace ddprun {

enum class time_style {
  time,  // 22:03:05.412
  iso,   // 2026-11-24T22:03:05.412+01:00
  none,
};

enum class log_format {
  text,
  json,  // one object per line
};

struct log_style {
  time_style time = time_style::time;
  log_format format = log_format::text;
};

}  // namespace ddprun
