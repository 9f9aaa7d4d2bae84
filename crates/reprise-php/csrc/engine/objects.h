/* PHP's stores of objects and resources: what the snapshot has, and what a request has made. */
#ifndef REPRISE_OBJECTS_H
#define REPRISE_OBJECTS_H

#include <stdbool.h>

/* At the snapshot. */
void engine_each_class_of_objects(void (*each)(const char *name)); /* once for each object */
void engine_mark_destructed(void);
void engine_note_objects(void);
void engine_hold_new_objects(void); /* made since they were noted */

/* At the end of a request. */
void engine_call_destructors(void);
void engine_close_resources(void);
void engine_free_objects(void);
void engine_close_persistent(void);

#endif
