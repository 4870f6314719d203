#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace trireme {

// Writes events as a Chrome trace (chrome://tracing, ui.perfetto.dev), each at once to the stream.
// A process groups tracks (a run, a simulation); a track is a row (a rank, its transfers). Do not
// use it inside a step: record into a buffer and write afterwards. One thread at a time may use it.
// The destructor ends the file.
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

  // Writes a box from start_s to end_s. `args` is the inside of a JSON object ("\"stage\":1") or
  // empty.
  void complete(Track track, std::string_view name, std::string_view category, double start_s,
                double end_s, std::string_view args = {});
  // Writes an arrow from a box of one track to a box of another. `id` must be unique.
  void arrow(int64_t id, Track from, double from_s, Track to, double to_s);
  // Writes a value over time, which is drawn as an area.
  void counter(int process, std::string_view name, double time_s, double value);

 private:
  void begin_event();

  std::ostream& out_;
  bool is_first_ = true;
};

// Returns the text escaped for the inside of a JSON string.
std::string json_escaped(std::string_view text);

}  // namespace trireme
