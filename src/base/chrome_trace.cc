#include "base/chrome_trace.h"

#include <fmt/format.h>

#include <ostream>

namespace trireme {
namespace {

constexpr double kMicroseconds = 1e6;

}  // namespace

std::string json_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

ChromeTraceWriter::ChromeTraceWriter(std::ostream& out) : out_(out) {
  out_ << R"({"displayTimeUnit":"ms","traceEvents":[)";
}

ChromeTraceWriter::~ChromeTraceWriter() { out_ << "\n]}\n"; }

void ChromeTraceWriter::begin_event() {
  out_ << (is_first_ ? "\n" : ",\n");
  is_first_ = false;
}

void ChromeTraceWriter::name_process(int process, std::string_view name) {
  begin_event();
  out_ << fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})",
                      process, json_escaped(name));
}

void ChromeTraceWriter::name_track(Track track, std::string_view name) {
  begin_event();
  out_ << fmt::format(
      R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
      track.process, track.row, json_escaped(name));
  begin_event();
  out_ << fmt::format(
      R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
      track.process, track.row, track.row);
}

void ChromeTraceWriter::complete(Track track, std::string_view name, std::string_view category,
                                 double start_s, double end_s, std::string_view args) {
  begin_event();
  out_ << fmt::format(
      R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})",
      json_escaped(name), json_escaped(category), track.process, track.row, start_s * kMicroseconds,
      (end_s - start_s) * kMicroseconds);
  if (!args.empty()) out_ << R"(,"args":{)" << args << '}';
  out_ << '}';
}

void ChromeTraceWriter::arrow(int64_t id, Track from, double from_s, Track to, double to_s) {
  begin_event();
  out_ << fmt::format(R"({{"ph":"s","name":"transfer","cat":"transfer",)"
                      R"("id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
                      id, from.process, from.row, from_s * kMicroseconds);
  begin_event();
  out_ << fmt::format(R"({{"ph":"f","bp":"e","name":"transfer","cat":"transfer",)"
                      R"("id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
                      id, to.process, to.row, to_s * kMicroseconds);
}

void ChromeTraceWriter::counter(int process, std::string_view name, double time_s, double value) {
  begin_event();
  out_ << fmt::format(R"({{"ph":"C","name":"{}","pid":{},"ts":{:.3f},"args":{{"value":{}}}}})",
                      json_escaped(name), process, time_s * kMicroseconds, value);
}

}  // namespace trireme
