#include "train/kernel_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest_name.h"

namespace trireme {

Result<KernelChoice> choose_kernels(const std::string& name) {
  const std::vector<Isa> supported = supported_isas();
  if (supported.empty()) {
    return Error{ErrorKind::Runtime, "this processor has no AVX2 and FMA: no kernels run on it"};
  }
  if (name == "auto") return KernelChoice{&cpu_kernels(supported.back()), supported.back()};
  if (name == "reference") return KernelChoice{&reference_kernels(), supported.front()};
  std::vector<std::string> names = {"auto", "reference"};
  for (Isa isa : supported) {
    if (name == name_of(isa)) return KernelChoice{&cpu_kernels(isa), isa};
    names.emplace_back(name_of(isa));
  }
  const std::string nearest = nearest_name(name, names);
  return Error{
      ErrorKind::Usage,
      fmt::format("run.isa = \"{}\" is not available here; use {}{}", name, fmt::join(names, ", "),
                  nearest.empty() ? "" : " (did you mean " + nearest + "?)")};
}

}  // namespace trireme
