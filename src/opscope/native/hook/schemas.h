// Which operator a call is of: torch keeps its schema where it is until the operator is taken back.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <variant>

#include "unneeded.h"

namespace opscope {

// Counts how often an operator was taken back.
class Withdrawals : public c10::OpRegistrationListener {
 public:
  static uint64_t count() { return counter().load(std::memory_order_relaxed); }
  static void watch() {
    static auto* listening = new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Withdrawals>()));
    (void)listening;  // for as long as the process lives
  }
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override { ++counter(); }

 private:
  static std::atomic<uint64_t>& counter() {
    static std::atomic<uint64_t> count{1};
    return count;
  }
};

template struct Private<&at::RecordFunction::fn_, struct OfWhat>;
auto member_of(OfWhat*);

// Null for what has only a name: nodes of autograd's engine, or what a program calls a part of it.
// Asking for the name instead would take memory that nothing else of ours needs.
inline const c10::FunctionSchema* schema_of(const at::RecordFunction& fn) {
  using Schema = std::reference_wrapper<const c10::FunctionSchema>;
  const Schema* schema = std::get_if<Schema>(&(fn.*member_of(static_cast<OfWhat*>(nullptr))));
  return schema == nullptr ? nullptr : &schema->get();
}

}  // namespace opscope
