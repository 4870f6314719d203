#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/sealed_json.h"
#include "checkpoint/held_part.h"
#include "checkpoint/hosts_record.h"
#include "checkpoint/rebuild_plan.h"
#include "schema/parity_code.h"

namespace {

using namespace trireme;

void require(bool holds) {
  if (!holds) std::abort();
}

// A fuzzer cannot guess the checksum, so most records get a correct one.
std::string sealed_record(const std::string& text) {
  const std::string body = text.substr(0, text.rfind(",\n\"checksum\":\""));
  const size_t end = body.find_last_not_of(" \t\r\n");
  return end == std::string::npos ? body : seal_json(body + "}");
}

HostsRecord some_hosts() {
  return {.num_data = 2,
          .num_parity = 1,
          .hosts = {{"a", "", {0, 1}}, {"b", "north", {2}}, {"c", "", {3, 4}}}};
}

}  // namespace

// What hosts tell each other about checkpoints in their memory, and checkpoint.parity. What is
// taken comes back from its text, and can be planned with.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: {
      const auto record = parse_hosts_record(sealed_record(text));
      if (!record.ok()) break;
      const std::string printed = print_hosts_record(*record);
      require(parse_hosts_record(printed).ok());
      require(print_hosts_record(*parse_hosts_record(printed)) == printed);
      require(record->num_lanes() > 0 && record->is_of_save(*record));
      break;
    }
    case 1: {
      const auto part = parse_held_part(text, some_hosts());
      if (part.ok()) require(plan_rebuild(some_hosts(), {}, std::span(&*part, 1)).ok());
      break;
    }
    case 2: {
      CheckpointIndex index;
      index.contents.shards["shard-00000-000.safetensors"] = {.bytes = 1000};
      const auto ranges = parse_ranges(text, index);
      if (!ranges.ok()) break;
      require(*parse_ranges(print_ranges(*ranges), index) == *ranges);
      break;
    }
    case 3: {
      const auto parity = parse_parity(text);
      if (!parity.ok()) break;
      const ParityCode code = parity_for(*parity, 3);
      require(code.num_data >= 1 && code.num_data + code.num_parity <= 3);
      break;
    }
  }
  return 0;
}
