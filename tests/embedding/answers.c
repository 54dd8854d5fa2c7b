// Answers through colibri.h: those of `colibri generate`, whoever else asks. One case a process:
//   embedding_answers CASE
#include <pthread.h>

#include "tests/embedding/checks.h"

// The ids that `colibri generate` prints for the demo model.
static void generated(const char* more, int32_t* ids, size_t* num_ids, size_t room) {
  char command[1024];
  snprintf(command, sizeof command, "%s generate --model %s --ids %s 2>/dev/null", COLIBRI_PROGRAM,
           COLIBRI_DEMO, more);
  FILE* out = popen(command, "r");
  CHECK(out != NULL);
  *num_ids = 0;
  int id = 0;
  while (*num_ids < room && fscanf(out, "%d", &id) == 1) {
    ids[(*num_ids)++] = id;
    if (fgetc(out) != ',') break;
  }
  CHECK(pclose(out) == 0);
}

static void check_generated(colibri_engine* engine, const colibri_request* request,
                            const char* more) {
  int32_t ids[256];
  colibri_result wanted = {.struct_size = sizeof wanted, .ids = ids};
  generated(more, ids, &wanted.num_ids, 256);
  colibri_result result = {.struct_size = sizeof result};
  CHECK_CODE(colibri_infer(engine, request, &result, NULL), COLIBRI_OK);
  CHECK(result.num_ids > 8);
  CHECK(same_ids(&result, &wanted));
  CHECK(result.finish == COLIBRI_FINISH_LENGTH);
  CHECK(result.first_token_ms > 0 && result.total_ms >= result.first_token_ms);
  colibri_result_free(&result);
}

static void same_as_generate(void) {
  for (int64_t ranks = 1; ranks <= 3; ++ranks) {
    colibri_engine* engine = start_demo(ranks);
    colibri_request request = ask("ROMEO:", 48);
    check_generated(engine, &request, "--prompt ROMEO: --greedy --max-tokens 48");
    request.temperature = 0.8;
    request.top_p = 0.9;
    request.top_k = 40;
    request.min_p = 0.01;
    request.seed = 77;
    check_generated(engine, &request,
                    "--prompt ROMEO: --max-tokens 48 --temperature 0.8 --top-p 0.9 --top-k 40 "
                    "--min-p 0.01 --seed 77");
    colibri_request defaults = {.struct_size = sizeof defaults};
    CHECK_CODE(colibri_default_request(&defaults), COLIBRI_OK);
    defaults.prompt = "def ";
    defaults.max_tokens = 24;
    check_generated(engine, &defaults, "--prompt 'def ' --max-tokens 24");
    CHECK_CODE(colibri_free(engine), COLIBRI_OK);
  }
}

// ---- Threads ------------------------------------------------------------------------------------

enum { kThreads = 8, kRounds = 1 };

static colibri_request nth(int n) {
  static const char* const kPrompts[4] = {"ROMEO:", "JULIET:", "def ", "First Citizen:\nWe are"};
  colibri_request request = ask(kPrompts[n % 4], 12 + 5 * n);
  request.seed = (uint64_t)n;
  request.temperature = n % 3 == 0 ? 0 : 0.9;
  return request;
}

struct asker {
  colibri_engine* engine;
  const colibri_result* wanted;
  int first;
};

static void* ask_all(void* argument) {
  const struct asker* asker = argument;
  for (int i = 0; i < kThreads * kRounds; ++i) {
    const int n = (asker->first + i) % kThreads;
    const colibri_request request = nth(n);
    colibri_result result = {.struct_size = sizeof result};
    CHECK_CODE(colibri_infer(asker->engine, &request, &result, NULL), COLIBRI_OK);
    CHECK(same_ids(&result, &asker->wanted[n]));
    CHECK(strcmp(result.text, asker->wanted[n].text) == 0);
    colibri_result_free(&result);
  }
  return NULL;
}

static void eight_threads_get_what_one_gets(void) {
  colibri_engine* engine = start_demo(2);
  colibri_result wanted[kThreads];
  for (int n = 0; n < kThreads; ++n) {
    const colibri_request request = nth(n);
    wanted[n] = (colibri_result){.struct_size = sizeof wanted[n]};
    CHECK_CODE(colibri_infer(engine, &request, &wanted[n], NULL), COLIBRI_OK);
  }
  pthread_t threads[kThreads];
  struct asker askers[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    askers[i] = (struct asker){engine, wanted, i};
    CHECK(pthread_create(&threads[i], NULL, ask_all, &askers[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int n = 0; n < kThreads; ++n) colibri_result_free(&wanted[n]);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

// ---- Pieces -------------------------------------------------------------------------------------

struct joined {
  char text[4096];
  int32_t ids[512];
  size_t text_bytes, num_ids, num_pieces;
};

static int join(void* user, const colibri_piece* piece) {
  struct joined* all = user;
  CHECK(piece->struct_size == sizeof *piece && piece->text[piece->text_bytes] == 0);
  memcpy(all->text + all->text_bytes, piece->text, piece->text_bytes + 1);
  memcpy(all->ids + all->num_ids, piece->ids, piece->num_ids * sizeof *piece->ids);
  all->text_bytes += piece->text_bytes;
  all->num_ids += piece->num_ids;
  ++all->num_pieces;
  return 0;
}

static void pieces_joined_are_the_result(void) {
  colibri_engine* engine = start_demo(1);
  const colibri_request request = ask("ROMEO:", 64);
  struct joined all = {.text_bytes = 0};
  colibri_result result = {.struct_size = sizeof result};
  CHECK_CODE(colibri_stream(engine, &request, join, &all, &result, NULL), COLIBRI_OK);
  CHECK(all.num_pieces > 1);
  CHECK(strcmp(all.text, result.text) == 0 && all.text_bytes == result.text_bytes);
  CHECK(all.num_ids == 64 && memcmp(all.ids, result.ids, 64 * sizeof *all.ids) == 0);
  colibri_result_free(&result);
  CHECK_CODE(colibri_stream(engine, &request, join, &all, NULL, NULL), COLIBRI_OK);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

static void stop_text_ends_the_answer_before_it(void) {
  colibri_engine* engine = start_demo(1);
  static const char* const kStops[2] = {"prisoner", "nothing like it"};
  colibri_request request = ask("ROMEO:", 64);
  request.stop = kStops;
  request.num_stop = 2;
  colibri_result result = {.struct_size = sizeof result};
  CHECK_CODE(colibri_infer(engine, &request, &result, NULL), COLIBRI_OK);
  CHECK(strcmp(result.text, " O, I will tell her,\nI'll to my ") == 0);
  CHECK(result.finish == COLIBRI_FINISH_STOP);
  const int32_t last = result.ids[3];
  colibri_result_free(&result);
  request.num_stop = 0;
  request.stop_ids = &last;
  request.num_stop_ids = 1;
  CHECK_CODE(colibri_infer(engine, &request, &result, NULL), COLIBRI_OK);
  CHECK(result.finish == COLIBRI_FINISH_STOP && result.ids[result.num_ids - 1] == last);
  colibri_result_free(&result);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

static void ids_and_texts_are_the_same_prompt(void) {
  colibri_engine* engine = start_demo(1);
  const colibri_request text = ask("ROMEO: was here", 8);
  colibri_result ids = {.struct_size = sizeof ids}, back = {.struct_size = sizeof back};
  CHECK_CODE(colibri_tokenize(engine, &text, &ids, NULL), COLIBRI_OK);
  CHECK(ids.num_ids > 4 && (int64_t)ids.num_ids == ids.num_prompt_ids && ids.text == NULL);
  CHECK_CODE(colibri_detokenize(engine, ids.ids, ids.num_ids, &back, NULL), COLIBRI_OK);
  CHECK(strcmp(back.text, "ROMEO: was here") == 0);
  colibri_request by_ids = ask(NULL, 8), by_part = ask("ROMEO: was here, and more", 8);
  by_ids.prompt_ids = ids.ids;
  by_ids.num_prompt_ids = ids.num_ids;
  by_part.prompt_bytes = strlen("ROMEO: was here");
  colibri_result a = {.struct_size = sizeof a}, b = a, c = a;
  CHECK_CODE(colibri_infer(engine, &text, &a, NULL), COLIBRI_OK);
  CHECK_CODE(colibri_infer(engine, &by_ids, &b, NULL), COLIBRI_OK);
  CHECK_CODE(colibri_infer(engine, &by_part, &c, NULL), COLIBRI_OK);
  CHECK(same_ids(&a, &b) && same_ids(&a, &c));
  colibri_result* all[5] = {&ids, &back, &a, &b, &c};
  for (int i = 0; i < 5; ++i) colibri_result_free(all[i]);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

static void two_engines_live_side_by_side(void) {
  colibri_engine *one = start_demo(1), *two = start_demo(2);
  const colibri_request request = ask("ROMEO:", 16);
  colibri_result a = {.struct_size = sizeof a}, b = a;
  CHECK_CODE(colibri_infer(two, &request, &b, NULL), COLIBRI_OK);
  CHECK_CODE(colibri_free(two), COLIBRI_OK);
  CHECK_CODE(colibri_infer(one, &request, &a, NULL), COLIBRI_OK);
  CHECK(same_ids(&a, &b));
  colibri_info info = {.struct_size = sizeof info};
  CHECK_CODE(colibri_get_info(one, &info), COLIBRI_OK);
  CHECK(info.vocab_size == 1536 && info.max_context == 512 && info.max_batch == 16);
  CHECK(info.ranks == 1 && info.has_tokenizer && info.is_running);
  colibri_result_free(&a);
  colibri_result_free(&b);
  CHECK_CODE(colibri_free(one), COLIBRI_OK);
}

static long resident_pages(void) {
  long size = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &size, &resident) == 2);
  fclose(file);
  return resident;
}

static void memory_is_given_back(void) {
  long after_first = 0;
  for (int i = 0; i < 20; ++i) {
    colibri_engine* engine = start_demo(2);
    const colibri_request request = ask("ROMEO:", 4);
    colibri_result result = {.struct_size = sizeof result};
    CHECK_CODE(colibri_infer(engine, &request, &result, NULL), COLIBRI_OK);
    colibri_result_free(&result);
    CHECK_CODE(colibri_free(engine), COLIBRI_OK);
    if (i == 4) after_first = resident_pages();
  }
  printf("%ld pages after 5 engines, %ld after 20\n", after_first, resident_pages());
  CHECK(resident_pages() < after_first + after_first / 20 + 256);  // 1 MiB and a twentieth
}

int main(int argc, char** argv) {
  static const struct named_case kCases[] = {
      {"same_as_generate", same_as_generate},
      {"eight_threads_get_what_one_gets", eight_threads_get_what_one_gets},
      {"pieces_joined_are_the_result", pieces_joined_are_the_result},
      {"stop_text_ends_the_answer_before_it", stop_text_ends_the_answer_before_it},
      {"ids_and_texts_are_the_same_prompt", ids_and_texts_are_the_same_prompt},
      {"two_engines_live_side_by_side", two_engines_live_side_by_side},
      {"memory_is_given_back", memory_is_given_back},
  };
  return run_case(argc, argv, kCases, sizeof kCases / sizeof *kCases);
}
