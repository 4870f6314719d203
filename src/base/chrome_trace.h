#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace trireme {

// Writes events as a Chrome trace (chrome://tracing, ui.perfetto.dev), each to the stream as it
// comes. A process groups tracks (a run, a simulation); a track is a row (a rank, its transfers).
// Not for recording inside a step: record into a buffer of your own and write afterwards. One
// thread at a time. The destructor ends the file.
class ChromeTraceWriter {
 public:
  explicit ChromeTraceWriter(std::ostream& out);
  ~ChromeTraceWriter();
  ChromeTraceWriter(const ChromeTraceWriter&) = delete;
  ChromeTraceWriter& operator=(const ChromeTraceWriter&) = delete;

  struct Track {
    int process = 0;
    int row = 0;
  };

  void name_process(int process, std::string_view name);
  void name_track(Track track, std::string_view name);

  // A box from start_s to end_s. `args` is the inside of a JSON object ("\"stage\":1") or empty.
  void complete(Track track, std::string_view name, std::string_view category, double start_s,
                double end_s, std::string_view args = {});
  // An arrow from inside a box of one track to inside a box of another; `id` is unique to the
  // arrow.
  void arrow(int64_t id, Track from, double from_s, Track to, double to_s);
  // A value over time, drawn as an area.
  void counter(int process, std::string_view name, double time_s, double value);

 private:
  void begin_event();

  std::ostream& out_;
  bool is_first_ = true;
};

// The text as the inside of a JSON string.
std::string json_escaped(std::string_view text);

}  // namespace trireme
