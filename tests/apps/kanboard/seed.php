<?php

// Two projects with columns, swimlanes and tasks, and the account admin / admin, which the schema has made.
require __DIR__ . '/htdocs/app/common.php';
foreach (['Garden', 'House'] as $name) {
    $project = $container['projectModel']->create(['name' => $name, 'description' => "All of the **$name**"], 1, true);
    $columns = $container['columnModel']->getAll($project);
    for ($number = 1; $number <= 12; $number++) {
        $container['taskCreationModel']->create([
            'project_id' => $project,
            'title' => "$name $number",
            'description' => "- first\n- *second*\n\n`code $number`",
            'column_id' => $columns[$number % count($columns)]['id'],
            'owner_id' => 1,
            'color_id' => 'blue',
        ]) or exit(1);
    }
}
