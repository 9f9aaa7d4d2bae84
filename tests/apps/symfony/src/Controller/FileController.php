<?php
namespace App\Controller;

use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\File\{Exception\FileException, UploadedFile};
use Symfony\Component\HttpFoundation\{BinaryFileResponse, HeaderUtils, Request, Response, StreamedResponse};
use Symfony\Component\Routing\Annotation\Route;

final class FileController extends AbstractController
{
    private function place(): string { return $this->getParameter('kernel.project_dir') . '/var/uploads'; }

    #[Route('/files', name: 'files', methods: ['GET'])]
    public function files(): Response
    {
        $rows = array_map(fn ($f) => [basename($f), filesize($f), md5_file($f)], glob($this->place() . '/*') ?: []);
        return $this->render('page/files.html.twig', ['rows' => $rows]);
    }

    #[Route('/files', name: 'files_add', methods: ['POST'])]
    public function add(Request $r): Response
    {
        if (!$this->isCsrfTokenValid('files', (string) $r->request->get('_token'))) { throw $this->createAccessDeniedException(); }
        foreach ($r->files->get('files') ?? [] as $file) {
            try {
                $this->keep($file);
                $this->addFlash('notice', "{$file->getClientOriginalName()} ({$file->getClientMimeType()}) for {$r->request->get('title')}");
            } catch (FileException $e) {
                $this->addFlash('notice', $e->getMessage());
            }
        }
        return $this->redirectToRoute('files');
    }

    private function keep(UploadedFile $file): void
    {
        // A fixed time, so that what is served of it later does not depend on when it came.
        touch($file->move($this->place(), $file->getClientOriginalName()), 1700000000);
    }

    #[Route('/files/{name}', name: 'file', requirements: ['name' => '[\w.-]+'], methods: ['GET'])]
    public function show(string $name, Request $r): Response
    {
        $file = $this->place() . "/$name";
        is_file($file) || throw $this->createNotFoundException("No file $name");
        $response = new BinaryFileResponse($file);
        $response->setAutoEtag()->setContentDisposition(HeaderUtils::DISPOSITION_ATTACHMENT, $name);
        $response->isNotModified($r);
        return $response;
    }

    #[Route('/report.csv', name: 'report', methods: ['GET'])]
    public function report(\App\Repository\PostRepository $posts): Response
    {
        $write = function () use ($posts) {
            $out = fopen('php://output', 'w');
            foreach ($posts->latest(200) as $p) { fputcsv($out, [$p->id, $p->title, $p->body]); flush(); }
        };
        return new StreamedResponse($write, 200, ['Content-Type' => 'text/csv', 'Content-Disposition' => HeaderUtils::makeDisposition('attachment', 'report.csv')]);
    }
}
