/* PHP's stores of objects and resources: what the snapshot has, and what a request has made. */
#ifndef REPRISE_OBJECTS_H
#define REPRISE_OBJECTS_H

#include <stdbool.h>

/* At the snapshot. */
void reprise_each_class_of_objects(void (*each)(const char *name)); /* once for each object */
void reprise_mark_destructed(void);
void reprise_note_objects(void);
void reprise_hold_new_objects(void); /* made since they were noted */

/* At the end of a request. */
void reprise_call_destructors(void);
void reprise_close_resources(void);
void reprise_free_objects(void);
void reprise_close_persistent(void);

#endif
