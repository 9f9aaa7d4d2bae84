/* A value of the data cache as PHP code, for people. */
#ifndef REPRISE_DATA_SHOW_H
#define REPRISE_DATA_SHOW_H

#include "data.h"

/* Runs no code of the application: what was serialized is shown as the bytes that it is. */
void data_show(const struct data_cache_Value *value, struct data_cache_AnswerText *text);

#endif
