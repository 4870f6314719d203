#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/xml.h"
#include "watch/blame.h"
#include "watch/host_evidence.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostPageBytes = 1 << 20;
constexpr const char* kStyle =
    ":root { color-scheme: light dark }\n"
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 "
    "1rem }\n"
    "h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }\n"
    "pre { overflow-x: auto; padding: .6rem; border: 1px solid #8886; border-radius: 4px }\n"
    "table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0; text-align: left; "
    "vertical-align: top }\n"
    "th { font-weight: 600 } .blamed { color: #c62828 } summary { cursor: pointer }\n"
    "@media (prefers-color-scheme: dark) { .blamed { color: #ff8a80 } }\n";

// Names the functions of stacks. The symbols of a file are read once.
class Namer {
 public:
  std::vector<std::string> names(const EvidenceRank& rank, const ThreadStack& stack) {
    std::vector<std::string> names;
    for (size_t i = 0; i < stack.frames.size(); ++i) {
      // All but the innermost frame are addresses to return to, which lie behind the call.
      const uint64_t address = stack.frames[i] - (i == 0 ? 0 : 1);
      names.push_back(rank.code != nullptr ? rank.code->name_at(address, files_)
                                           : fmt::format("0x{:x}", address));
    }
    return names;
  }

 private:
  std::map<std::string, Symbols> files_;
};

Json counters_json(const HostCounters& c) {
  return {{"oom_kills", c.oom_kills},
          {"disk_errors", c.disk_errors},
          {"network_errors", c.network_errors},
          {"memory_errors", c.memory_errors},
          {"throttled_ms", c.throttled_ms},
          {"device_errors", c.device_errors},
          {"major_faults", c.major_faults},
          {"runnable", c.runnable},
          {"stolen_s", c.stolen_s},
          {"memory_pressure", c.memory_pressure},
          {"available_memory_bytes", c.available_memory_bytes},
          {"disk_ios", c.disk_ios},
          {"disk_ms", c.disk_ms}};
}

Json rank_json(const HostEvidence::Rank& rank, Namer& namer) {
  const RankSample& sample = rank.sample;
  Json stacks = Json::array();
  for (const ThreadStack& stack : rank.stacks) {
    stacks.push_back({{"thread", stack.thread},
                      {"crash", stack.is_crash},
                      {"signal", stack.is_crash ? stack.signal : 0},
                      {"frames", namer.names(rank.who, stack)}});
  }
  Json json = {{"rank", rank.who.rank},
               {"pid", rank.who.pid},
               {"alive", rank.who.is_alive},
               {"stopped", rank.who.is_stopped},
               {"epoch", sample.epoch},
               {"phase", name_of(sample.phase)},
               {"step", sample.step},
               {"action", sample.action},
               {"action_code", sample.action_text()},
               {"call", sample.calls},
               {"bytes", sample.bytes}};
  if (sample.waits()) {
    json["waits_for"] = sample.wait_peer;
    json["waits_in_group"] = sample.wait_group;
    json["waits_in_call"] = sample.wait_sequence;
  }
  json["stacks"] = std::move(stacks);
  for (const EvidenceSection& section : rank.sections) json["proc"][section.title] = section.text;
  return json;
}

std::string dump(const Json& json) { return lenient_json_text(json, 1) + "\n"; }

std::string details(const EvidenceSection& section) {
  return fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
                     xml_escaped(section.title), xml_escaped(section.text));
}

std::string failure_table(const Json& failure) {
  std::string rows;
  for (const auto& [key, value] : failure.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
    rows += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", xml_escaped(key), xml_escaped(text));
  }
  return "<table>\n" + rows + "</table>\n";
}

std::string rank_html(const HostEvidence::Rank& rank, const Json& json, int blamed) {
  const bool is_blamed = rank.who.rank == blamed;
  std::string waits = "waits for nobody";
  if (rank.sample.waits()) {
    waits = fmt::format("waits for rank {} in call {} of group {}", rank.sample.wait_peer,
                        rank.sample.wait_sequence, rank.sample.wait_group);
  }
  std::string html = fmt::format("<h2{}>rank {}{}</h2>\n<p>process {}, {}{}; {}</p>\n",
                                 is_blamed ? " class=\"blamed\"" : "", rank.who.rank,
                                 is_blamed ? ": the failure is its" : "", rank.who.pid,
                                 !rank.who.is_alive    ? "ended "
                                 : rank.who.is_stopped ? "stopped "
                                                       : "",
                                 xml_escaped(place_text(rank.sample)), waits);
  for (const Json& stack : json.at("stacks")) {
    std::string frames;
    for (const Json& frame : stack.at("frames")) frames += frame.get<std::string>() + "\n";
    const bool is_crash = stack.at("crash").get<bool>();
    html += fmt::format("<p>{} {}</p><pre>{}</pre>\n", is_crash ? "crashed thread" : "thread",
                        stack.at("thread").get<int>(), xml_escaped(frames));
  }
  if (rank.stacks.empty()) html += "<p>no stack: the process could not answer</p>\n";
  for (const EvidenceSection& section : rank.sections) html += details(section);
  return html;
}

std::string page(const HostEvidence& evidence, const Json& json) {
  const Json& failure = json.at("failure");
  const int blamed = failure.value("rank", -1);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Failure {0}</title>\n"
      "<style>\n{1}</style></head><body>\n<h1>Failure {0}: {2}</h1>\n",
      failure.value("number", 0), kStyle, xml_escaped(failure.value("cause", "")));
  html += failure_table(failure);
  for (const bool is_turn_of_blamed : {true, false}) {  // the one to which it happened comes first
    for (size_t i = 0; i < evidence.ranks.size(); ++i) {
      const bool is_blamed = evidence.ranks[i].who.rank == blamed;
      if (html.size() > kMostPageBytes || is_blamed != is_turn_of_blamed) continue;
      html += rank_html(evidence.ranks[i], json.at("ranks").at(i), blamed);
    }
  }
  html += fmt::format("<h2>host</h2>\n<p>collected in {:.0f} ms</p>\n", evidence.took_s * 1e3);
  html += details({"counters before and after", dump(json.at("host"))});
  std::string kernel;
  for (const std::string& line : evidence.kernel_lines) kernel += line + "\n";
  if (!kernel.empty()) html += details({"log of the kernel", kernel});
  for (const EvidenceSection& section : evidence.host) {
    if (html.size() > kMostPageBytes) break;
    html += details(section);
  }
  return html + "</body></html>\n";
}

}  // namespace

Status write_evidence(const HostEvidence& evidence, const std::string& failure,
                      const std::string& folder) {
  Namer namer;
  Json json;
  json["failure"] = parse_ordered_json_or_discard(failure);
  if (!json["failure"].is_object()) json["failure"] = Json::object();
  json["collected_ms"] = evidence.took_s * 1e3;
  json["ranks"] = Json::array();
  for (const HostEvidence::Rank& rank : evidence.ranks) {
    json["ranks"].push_back(rank_json(rank, namer));
  }
  json["host"] = {{"before", counters_json(evidence.before)},
                  {"after", counters_json(evidence.after)}};
  json["kernel"] = evidence.kernel_lines;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return damaged(fmt::format("{}: {}", folder, error.message()));
  const std::string html = page(evidence, json);
  // The ranks may have very long texts of /proc, which the page has as well.
  std::string text = dump(json);
  for (Json& rank : json["ranks"]) {
    if (text.size() > kMostPageBytes) rank.erase("proc");
  }
  if (text.size() > kMostPageBytes) text = dump(json);
  TRIREME_TRY_DONE(write_file_atomically(folder + "/evidence.json", text));
  return write_file_atomically(folder + "/index.html", html);
}

}  // namespace trireme
