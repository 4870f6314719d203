#pragma once

#include <memory>
#include <utility>

#include "api/loaded_model.h"
#include "base/result.h"
#include "schema/run_config.h"
#include "trireme/configuration.h"
#include "trireme/failure.h"
#include "trireme/model.h"

namespace trireme::api {

struct Configuration::Content {
  RunConfig config;
};

struct Model::Content {
  std::unique_ptr<LoadedModel> loaded;
};

// The public functions throw a Failure for the errors that inner functions return or throw.
[[noreturn]] void fail(const trireme::Error& error);
[[noreturn]] void fail_with_current_exception();

template <typename T>
T value_or_fail(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}

// Calls body() and turns every exception into a Failure.
template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Failure&) {
    throw;
  } catch (...) {
    fail_with_current_exception();
  }
}

}  // namespace trireme::api
