// A journal in the given memory: the records of one daemon are found by the next one in the same
// process. For tests of code that uses a journal.
//
// Thread rule: as journal.hpp; `memory` is used on the executor's thread only.
#pragma once

#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/journal/journal.hpp"
#include "rendezvous/net/net_types.hpp"

#include <boost/asio/post.hpp>

#include <map>
#include <memory>
#include <string>

namespace ddprun::journal {

using memory = std::map<std::string, core::run_record>;

class memory_journal final : public journal {
 public:
  memory_journal(net::executor where, std::shared_ptr<memory> in, handlers told)
      : where_(std::move(where)),
        memory_(std::move(in)),
        told_(std::make_shared<handlers>(std::move(told))) {}

  std::vector<core::run_record> take_loaded() override {
    std::vector<core::run_record> loaded;
    for (const auto& [run_id, record] : *memory_)
      loaded.push_back(record);
    return loaded;
  }
  std::uint64_t keep(core::run_record record) override {
    std::string run_id = record.run_id;
    memory_->insert_or_assign(std::move(run_id), std::move(record));
    return confirm();
  }
  std::uint64_t forget(const std::string& run_id) override {
    memory_->erase(run_id);
    return confirm();
  }

 private:
  std::uint64_t confirm() {
    boost::asio::post(where_, while_alive(std::weak_ptr(told_), [&told = *told_, number = ++last_] {
                        told.persisted(number);
                      }));
    return last_;
  }

  net::executor where_;
  std::shared_ptr<memory> memory_;
  std::shared_ptr<handlers> told_;
  std::uint64_t last_ = 0;
};

}  // namespace ddprun::journal
